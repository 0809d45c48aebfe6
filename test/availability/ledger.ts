// What clients were told, of routes that redirect: the value of a route is where it leads, so that an edge node shows it, too.

import { random, randomBelow } from '../harness/random.ts'
import type { Answer, Call } from './client.ts'
import { pause } from './wait.ts'

type Entry = {
  id: string
  path: string
  /** After the last acknowledged answer; null: deleted. */
  value: string | null
  /** What a call without a clear answer may have made of it. Nothing is done to the route after that. */
  perhaps?: string | null
}

export type Ledger = {
  edgeId: string
  entries: Entry[]
  perhapsCreated: Set<string>
  acknowledged: { operation: string; generation: number; at: number }[]
  /** Answered with ERR_OUTCOME_UNKNOWN; without an answer; refused, so that nothing was changed. */
  unknown: number
  unanswered: number
  refused: number
  surprises: string[]
  slowest: { ms: number; at: number }
}

export async function newLedger(call: Call, host = 'app.example'): Promise<Ledger> {
  const { body } = await call('POST', '/edges/https', { hostports: [`${host}:443`] })
  return {
    edgeId: body.id,
    entries: [],
    perhapsCreated: new Set(),
    acknowledged: [],
    unknown: 0,
    unanswered: 0,
    refused: 0,
    surprises: [],
    slowest: { ms: 0, at: 0 },
  }
}

export const targetOf = (value: string): string => `https://${value}.example/`
export const redirectTo = (value: string) => ({
  redirect: { to: targetOf(value), keep_path: false, keep_query: false, status_code: 302 },
})

type Outcome = { answer: Answer } | 'unchanged' | 'unknown'

function outcomeOf(answer: Answer, ledger: Ledger): Outcome {
  if (answer.ms > ledger.slowest.ms) ledger.slowest = { ms: answer.ms, at: Date.now() }
  const { status, body, operation, generation } = answer
  if (status < 300) {
    ledger.acknowledged.push({ operation, generation, at: Date.now() })
    return { answer }
  }
  if (status === 503 && body.error_code === 'ERR_OUTCOME_UNKNOWN') {
    ledger.unknown++
    return 'unknown'
  }
  // The others of 503, and a limit that was reached because calls wait, promise that nothing was changed. They are taken at
  // their word.
  if (status === 503 || status === 429) {
    ledger.refused++
    return 'unchanged'
  }
  ledger.surprises.push(`a right call got ${status} ${JSON.stringify(body).slice(0, 200)}`)
  return 'unknown'
}

/** Each worker creates, changes and deletes routes of its own until `isOver`. */
export async function work(calls: readonly Call[], ledger: Ledger, isOver: () => boolean, workers = 8): Promise<void> {
  let names = ledger.entries.length + ledger.perhapsCreated.size + Math.floor(Date.now() / 1_000) * 1_000
  const attempt = async (...args: Parameters<Call>): Promise<Outcome> => {
    try {
      const call = calls[randomBelow(calls.length)] as Call
      const outcome = outcomeOf(await call(...args), ledger)
      if (outcome === 'unchanged') await pause(100)
      return outcome
    } catch (error) {
      const refused = /ECONNREFUSED|EHOSTUNREACH/.test((error as { code?: string }).code ?? '')
      if (refused) ledger.refused++
      else ledger.unanswered++
      await pause(100)
      return refused ? 'unchanged' : 'unknown'
    }
  }
  const routes = `/edges/https/${ledger.edgeId}/routes`
  const worker = async () => {
    const mine: Entry[] = []
    while (!isOver()) {
      const value = `d${names++}`
      const at = randomBelow(mine.length)
      const entry = mine[at]
      const choice = random()
      if (!entry || mine.length < 5 || (choice < 0.2 && mine.length < 40)) {
        const path = `/${value}`
        const outcome = await attempt('POST', routes, { match_type: 'exact_path', match: path, ...redirectTo(value) })
        if (outcome === 'unknown') ledger.perhapsCreated.add(path)
        else if (outcome !== 'unchanged') {
          const created = { id: outcome.answer.body.id, path, value }
          ledger.entries.push(created)
          mine.push(created)
        }
      } else {
        const wanted = choice < 0.85 ? value : null
        const outcome =
          wanted === null
            ? await attempt('DELETE', `${routes}/${entry.id}`)
            : await attempt('PATCH', `${routes}/${entry.id}`, redirectTo(wanted))
        if (outcome === 'unknown') entry.perhaps = wanted
        else if (outcome !== 'unchanged') entry.value = wanted
        if (outcome === 'unknown' || (outcome !== 'unchanged' && wanted === null)) mine.splice(at, 1)
      }
    }
  }
  await Promise.all(Array.from({ length: workers }, worker))
}

export const figures = (ledger: Ledger): string =>
  `${ledger.acknowledged.length} changes acknowledged, ${ledger.unknown} outcome unknown, ${ledger.unanswered} unanswered, ` +
  `${ledger.refused} refused; the slowest answer took ${(ledger.slowest.ms / 1_000).toFixed(1)} s`

/** The longest time in which nothing was acknowledged, in seconds. */
export function longestGap({ acknowledged }: Ledger, from: number, to = Date.now()): number {
  const times = [from, ...acknowledged.map(({ at }) => at).filter((at) => at >= from && at <= to), to].sort(
    (a, b) => a - b,
  )
  return Math.max(...times.slice(1).map((at, index) => at - (times[index] ?? at))) / 1_000
}
