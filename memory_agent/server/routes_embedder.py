"""The move to another embedding model: its plan, its state, how both compare, the way back, and its end. All for a key for all tenants."""

from typing import Final

from fastapi import APIRouter
from fastapi.responses import Response

from memory_agent.server.dependencies import OpenApi, Operator, WritingOperator, answer
from memory_agent.server.openapi import operation_id
from memory_agent.wire.embedder import Compare, Model
from memory_agent.wire.encoding import json_of
from memory_agent.wire.work import EmbedderMigration, MigrationPlan, MigrationReport

router = APIRouter(tags=["work"], generate_unique_id_function=operation_id)

EMBEDDER: Final = "/api/embedder"


@router.get(f"{EMBEDDER}/migration", response_model=EmbedderMigration | None)
async def embedder_migration(api: OpenApi, _: Operator) -> Response:
    """The move to another embedding model that is under way, or the last one, and how far it is; null if there was none."""
    found = await api.service.embedder_migration()
    return answer(None if found is None else json_of(EmbedderMigration, found))


@router.post(f"{EMBEDDER}/plan", response_model=MigrationPlan)
async def plan_migration(api: OpenApi, _: WritingOperator, body: Model) -> Response:
    """Estimate what a move to this model would take; nothing is changed."""
    plan = await api.service.plan_migration(body.model, precision=body.precision, api=body.api)
    return answer(json_of(MigrationPlan, plan))


@router.post(f"{EMBEDDER}/migration", response_model=EmbedderMigration, status_code=202)
async def migrate_embedder(api: OpenApi, _: WritingOperator, body: Model) -> Response:
    """Begin to move the memory to another embedding model, or go on with it, in the background."""
    begun = await api.service.migrate_embedder(body.model, precision=body.precision, api=body.api)
    return answer(json_of(EmbedderMigration, begun), 202)


@router.post(f"{EMBEDDER}/compare", response_model=MigrationReport)
async def compare_embedders(api: OpenApi, _: WritingOperator, body: Compare | None = None) -> Response:
    """Compare the results of both models, on turns of users that are moved."""
    questions = (body or Compare()).questions
    return answer(json_of(MigrationReport, await api.service.compare_embedders(questions=questions)))


@router.post(f"{EMBEDDER}/rollback", response_model=EmbedderMigration, status_code=202)
async def roll_back_migration(api: OpenApi, _: WritingOperator) -> Response:
    """Let everybody be searched by the old model again, in the background; the new vectors are dropped."""
    return answer(json_of(EmbedderMigration, await api.service.roll_back_migration()), 202)


@router.post(f"{EMBEDDER}/finish", response_model=EmbedderMigration, status_code=202)
async def finish_migration(api: OpenApi, _: WritingOperator) -> Response:
    """Drop the old model's vectors, in the background; there is no way back then."""
    return answer(json_of(EmbedderMigration, await api.service.finish_migration()), 202)
