"""Opens programs for pages: fetched with the viewer's own identity, compared with the manifest, in a confined process.

version ─▶ manifest has its digest? ─▶ known already? ─▶ program fetched, has its digest? ─▶ opened, confined ─▶ kept

P1  A program is opened only if it is the one that the version's manifest names, by digest and size; the server has
    verified the team's signature over that manifest before it published it.
P2  It is opened in a process that can only compute (`alcove.platform.confined`), one at a time; few wait.
P3  What was found is kept by digest, within a bound.  Whoever asks must be allowed to read the version now.
"""

__all__: list[str] = []
