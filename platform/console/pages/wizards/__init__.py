"""Forms in which rollouts and experiments are written: each is one form, sent whole, so that it works without scripts.

what is compared ─▶ form ─check─▶ form with its forecast ─simulate─▶ … ─create─▶ the page of what was created
                     └───────────── every answer shows the form again with all that was written
"""
