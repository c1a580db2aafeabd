"""Alerts people by webhooks and e-mail; `alcove serve --alerts` runs it, beside everything else.

    audit log, conditions ─▶ watch.py ─▶ rows (store/alerts.py) ─▶ sender.py ─▶ webhook.py, mail.py

A change waits for nothing here: its audit entry, written in its own transaction, is what alerts are made of afterwards.
"""
