package scenarios

import "go.yaml.in/yaml/v3"

func scalarNode(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: s} }
func mappingNode() *yaml.Node        { return &yaml.Node{Kind: yaml.MappingNode} }
