"""What a server shows of itself: metrics, live rows, traces."""
