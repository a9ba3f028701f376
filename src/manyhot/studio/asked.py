"""What requests are made of: the studio that they are put to, and the parameters that several of them take."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Path, Query, Request

from manyhot.studio.deciding import Choice
from manyhot.studio.messages import By
from manyhot.studio.session import Studio


# Both are coroutines, because what is none would be handed to a thread and back for every request.
async def opened(request: Request) -> Studio:
    """The studio of the application."""
    studio: Studio = request.app.state.studio
    return studio


async def chosen(
    by: Annotated[By | None, Query(description="How labels are decided; the collection's way by default.")] = None,
    value: Annotated[float | None, Query(ge=0, le=1e6, allow_inf_nan=False, description="Its number.")] = None,
) -> Choice:
    """How labels are to be decided."""
    return Choice(by, value)


Opened = Annotated[Studio, Depends(opened)]
Chosen = Annotated[Choice, Depends(chosen)]
Text = Annotated[str, Query(max_length=10_000, description="A query such as `dog & !(beach | park)`.")]
Split = Annotated[str | None, Query(max_length=1_000, description="The split to look at; all rows by default.")]
Row = Annotated[int, Path(ge=0, le=2**31, description="The number of the row, counted from 0.")]
Offset = Annotated[int, Query(ge=0, le=2**31)]
Limit = Annotated[int, Query(ge=1, le=200)]
