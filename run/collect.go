package run

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// collectTime bounds the collecting of logs.
const collectTime = 30 * time.Second

// collect writes the pods' logs, the events and the nodes into dir. What cannot
// be had is left out and logged: a run is not worse for it.
func collect(ctx context.Context, s *system, dir string, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, collectTime)
	defer cancel()
	ns := s.plan.Teleport.Namespace
	if list, err := s.client.CoreV1().Events(ns).List(ctx, metav1.ListOptions{}); err != nil {
		log.Warn("collect events", "err", err)
	} else {
		writeJSON(filepath.Join(dir, "events.json"), list.Items, log)
	}
	if list, err := s.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{}); err != nil {
		log.Warn("collect nodes", "err", err)
	} else {
		writeJSON(filepath.Join(dir, "nodes.json"), list.Items, log)
	}
	list, err := s.client.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		log.Warn("collect pods", "err", err)
		return
	}
	writeJSON(filepath.Join(dir, "pods.json"), list.Items, log)
	for _, p := range list.Items {
		for _, c := range p.Spec.Containers {
			if err := podLog(ctx, s, p, c.Name, filepath.Join(dir, p.Name+"."+c.Name+".log")); err != nil {
				log.Warn("collect a log", "pod", p.Name, "container", c.Name, "err", err)
			}
		}
	}
}

func podLog(ctx context.Context, s *system, p corev1.Pod, container, file string) error {
	in, err := s.client.CoreV1().Pods(p.Namespace).GetLogs(p.Name, &corev1.PodLogOptions{Container: container}).Stream(ctx)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	return err
}

func writeJSON(file string, v any, log *slog.Logger) {
	data, err := json.MarshalIndent(v, "", " ")
	if err == nil {
		err = os.WriteFile(file, append(data, '\n'), 0o644)
	}
	if err != nil {
		log.Warn("collect", "file", file, "err", err)
	}
}
