"""Which expressions of somebody's dashboards and rules a stack cannot answer at a version, and what to ask instead.

``sources`` finds the expressions in a file, ``promql`` the metric names in an expression, ``answers`` judges a name,
``linting`` puts them together, ``render`` writes the result.
"""
