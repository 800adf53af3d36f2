"""The graph's nodes, one small file each."""
