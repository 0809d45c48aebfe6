import { many } from '../src/db/pool.ts'
import { sql } from '../src/db/sql.ts'
import { toId, type Uuid } from '../src/kernel/ids.ts'
import { type Contender, type Goal, measureBesideEachOther, type Outcome } from './harness/side_by_side.ts'
import { createWorld, type World } from './harness/world.ts'

type Options = { rounds: number; seconds: number; connections: number }
type Bench = { title: string; run: (options: Options) => Promise<Outcome> }

const keys = 100_000

/** The second Gatehouse is the control: how far the ratio of two equal programs is from 1 is the noise. */
const ours = 'Gatehouse'
const control: Goal = { of: 'Gatehouse again', to: ours }

export const benches: Record<string, Bench> = {
  api: {
    title: 'GET /api_keys/{id}',
    run: (options) =>
      inWorld(async (world) => {
        const [row] = await many<{ id: Uuid }>(
          world.db,
          sql`select id from api_keys where account_id = ${world.account} and description = 'key 5000'`,
        )
        const path = `/api_keys/${toId('ak', row?.id as Uuid)}`
        const contenders = [
          await contender(world, ours, await world.gatehouse(), path),
          await contender(world, 'Gatehouse again', await world.gatehouse(), path),
          await contender(world, 'bare, two selects in sequence', await world.bare('sequential'), path),
          await contender(world, 'bare, joined on shared connections', await world.bare('joined'), path),
        ]
        const goals: Goal[] = [
          { of: ours, to: 'bare, two selects in sequence', processor: 1, rate: 1.2 },
          { of: ours, to: 'bare, joined on shared connections', processor: 0.7 },
          control,
        ]
        return measureBesideEachOther(contenders, goals, options)
      }),
  },
  write: {
    title: 'POST /api_keys',
    run: (options) =>
      inWorld(async (world) => {
        const body = '{"description": "bench"}'
        const contenders = [
          await contender(world, ours, await world.gatehouse(), '/api_keys', body),
          await contender(world, 'Gatehouse again', await world.gatehouse(), '/api_keys', body),
          await contender(world, 'bare, five round trips', await world.bare('write'), '/api_keys', body),
        ]
        const goals: Goal[] = [{ of: ours, to: 'bare, five round trips', processor: 1, rate: 1.1 }, control]
        return measureBesideEachOther(contenders, goals, options)
      }),
  },
  list: {
    title: 'GET /api_keys?limit=100',
    run: (options) =>
      inWorld(async (world) => {
        const contenders = [
          await contender(world, ours, await world.gatehouse(), '/api_keys?limit=100'),
          await contender(world, 'Gatehouse again', await world.gatehouse(), '/api_keys?limit=100'),
          await contender(world, 'bare, query and JSON', await world.bare('list'), '/api_keys'),
        ]
        return measureBesideEachOther(
          contenders,
          [{ of: ours, to: 'bare, query and JSON', processor: 0.7 }, control],
          options,
        )
      }),
  },
}

async function inWorld(work: (world: World) => Promise<Outcome>): Promise<Outcome> {
  const world = await createWorld({ keys })
  try {
    return await work(world)
  } finally {
    await world.end()
  }
}

async function contender(
  { token }: World,
  name: string,
  { pid, origin }: { pid: number; origin: string },
  path: string,
  body?: string,
): Promise<Contender> {
  const headers = { Authorization: `Bearer ${token}`, 'Service-Version': '2' }
  return { name, pid, url: origin + path, headers, ...(body !== undefined && { body }) }
}
