"""Counts how much of core ATen runs natively and agrees with eager: `python -m benchmarks.coverage`.

names.py    which operators torch calls core, and which of them mean nothing at inference
sources.py  which of torch's own OpInfos reach an operator
own.py      samples for what no OpInfo reaches
samples.py  samples of one operator: called through its OpInfo, and as torch.ops.aten.X.overload
case.py     one sample through export, program and native run, compared with eager
checking.py all samples of one operator
workers.py  processes that work on names; one that dies takes nothing with it
report.py   what was found: table, page, JSON

Needs torch and what `make setup` installs (torch's op database imports expecttest; the table is Rich's).
"""
