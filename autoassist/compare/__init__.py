"""`autoassist compare`: policies against plain training, so that a difference means something.

`arms` says what is compared, `plan` which runs that takes, `command` makes them, `verdict` is the statistics,
`tables` and `plots` show them; `plain` is the PyTorch loop people would write instead.
"""
