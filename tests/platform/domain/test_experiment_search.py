"""Searches for experiments: what a page token is good for."""

import pytest
from alcove.platform.domain.errors import InvalidFieldError
from alcove.platform.domain.experiments.search import ExperimentOrder, page_token, parse_query


def test_a_token_of_another_search_is_refused() -> None:
    """Filters and order may not change on the way, the size of a page may; forged tokens are named."""

    class Last:
        sequence = 7

    query = parse_query(app="app", text="A b")
    token = page_token(query, Last())  # type: ignore[arg-type]
    assert parse_query(app="app", text="a  B", page_size=3, page_token=token).after == 7
    for other in ({"app": "other", "text": "a b"}, {"app": "app"}):
        with pytest.raises(InvalidFieldError, match="page_token"):
            parse_query(**other, page_token=token)  # type: ignore[arg-type]
    for forged in (token + "0" * 30, token.partition("-")[0], "-7", f"{token[:16]}-0", f"{token[:16]}-٧"):
        with pytest.raises(InvalidFieldError, match="page_token"):
            parse_query(app="app", text="a b", page_token=forged)
    with pytest.raises(InvalidFieldError, match="page_token"):
        parse_query(app="app", text="a b", order=ExperimentOrder.NEWEST, page_token=token)
