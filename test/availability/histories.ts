import { random, randomBelow } from '../harness/random.ts'
import type { Call } from './client.ts'
import { type Ledger, redirectTo } from './ledger.ts'
import type { Operation } from './linearizable.ts'
import { pause } from './wait.ts'

export type Recorded = { initial: string; history: Operation[] }

const routesAtOnce = 3
const clients = 8
let names = 0

/** Eight clients read and write three new routes while `faults` happen. Resolves to the history of each route. */
export async function record(call: Call, { edgeId }: Ledger, faults: () => Promise<void>): Promise<Recorded[]> {
  const routes = `/edges/https/${edgeId}/routes`
  const registers = await Promise.all(
    Array.from({ length: routesAtOnce }, async () => {
      const initial = `h${names++}`
      const wanted = { match_type: 'exact_path', match: `/${initial}`, ...redirectTo(initial) }
      const { status, body } = await call('POST', routes, wanted)
      if (status !== 201) throw new Error(`POST ${status}`)
      return { path: `${routes}/${body.id}`, initial, history: [] as Operation[] }
    }),
  )
  let isOver = false
  const client = async () => {
    while (!isOver) {
      const register = registers[randomBelow(registers.length)] as (typeof registers)[number]
      const operation: Operation = {
        kind: random() < 0.4 ? 'write' : 'read',
        value: `h${names++}`,
        began: performance.now(),
        ended: Number.POSITIVE_INFINITY,
      }
      if (await perform(call, register.path, operation)) register.history.push(operation)
      // A history must stay short enough to be checked.
      await pause(100 + random() * 200)
    }
  }
  const working = Array.from({ length: clients }, client)
  await faults().finally(() => {
    isOver = true
  })
  await Promise.all(working)
  return registers.map(({ initial, history }) => ({ initial, history }))
}

/** False when it is known that nothing happened. */
async function perform(call: Call, path: string, operation: Operation): Promise<boolean> {
  try {
    if (operation.kind === 'read') {
      const { status, body } = await call('GET', path)
      if (status !== 200) return false
      operation.value = /^https:\/\/(.*)\.example\/$/.exec(body.redirect.to)?.[1] ?? null
      operation.ended = performance.now()
      return true
    }
    const { status, body } = await call('PATCH', path, redirectTo(operation.value as string))
    if (status === 200) operation.ended = performance.now()
    return status === 200 || body.error_code === 'ERR_OUTCOME_UNKNOWN'
  } catch {
    // Without an answer.
    return operation.kind === 'write'
  }
}

/** The same with a fault: the last read sees what was overwritten before the one before it began. */
export function withLostWrite(history: readonly Operation[]): Operation[] {
  const last = history.filter(({ kind }) => kind === 'read').at(-1)
  const writes = history.filter(({ kind, ended }) => kind === 'write' && ended < (last?.began ?? 0))
  const lost = writes.find(({ ended }) => writes.some((other) => other.began > ended))
  return history.map((operation) => (operation === last && lost ? { ...operation, value: lost.value } : operation))
}
