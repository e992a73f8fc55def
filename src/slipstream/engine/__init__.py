"""When rows run, and who: placement, queue, driver, lease, sessions. Never what a tensor means."""
