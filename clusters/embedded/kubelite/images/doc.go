// Package images turns the image names of pod specs into unpacked root
// filesystems.
//
// A [Store] resolves names through a table of sources (a registry, an OCI
// layout, an archive, a folder of this machine, a built-in), unpacks each layer
// once into a cache shared by all runs of the same user, and hands out the
// directories for an overlay mount. A [Service] is the kubelet's face of it: it
// needs only a [Puller], which is the Store itself or, for a process without a
// route outwards, [Dial] to a Store behind [Serve] on a Unix socket.
//
// Layers are unpacked into directories named by their diff ID, not into
// snapshots of whole images: two images then share what they have in common, and
// a layer is either there, renamed into place complete, or not there at all.
package images
