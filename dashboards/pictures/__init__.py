"""Pictures of the boards without a Grafana: the boards' own queries, answered by a real Prometheus, drawn in one page.

``python -m dashboards.pictures OUT`` needs Debian's prometheus, chromium and pngquant. ``history`` makes half an hour
of series from the simulator and the captured pages, ``answers`` asks, ``draw`` and ``page`` draw, ``__main__`` runs
it all.
"""
