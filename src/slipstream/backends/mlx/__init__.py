"""What a row's bytes mean. The only package that imports mlx; all of it runs on one thread."""
