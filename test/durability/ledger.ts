import { AssertionError } from 'node:assert'
import type { Answer, Client } from '../harness/client.ts'
import { pause } from '../harness/poll.ts'
import { random, randomBelow } from '../harness/random.ts'

/** What a client may rely on of one key. A description is never used twice; null is a key that is not there. */
export type Entry = {
  id: string
  /** After the last acknowledged answer. */
  description: string | null
  /** What a call without a clear answer may have made of it. Nothing is done to the key after that. */
  perhaps?: string | null
}

/** What was acknowledged to clients under load: exactly what they may rely on. */
export type Ledger = {
  entries: Entry[]
  /** Descriptions of keys whose creation got no clear answer. */
  perhapsCreated: Set<string>
  /** Operation ids of acknowledged changes. */
  acknowledged: Map<string, string>
  /** Calls without a clear answer, and calls without an effect: refused, or without a server. */
  unanswered: number
  refused: number
  /** Answers that cannot be when nothing was lost. */
  surprises: string[]
  /** Requests under way, by process. */
  inFlight: number[]
}

export const newLedger = (): Ledger => ({
  entries: [],
  perhapsCreated: new Set(),
  acknowledged: new Map(),
  unanswered: 0,
  refused: 0,
  surprises: [],
  inFlight: [0, 0],
})

type Outcome = { answer: Answer } | 'unchanged' | 'unknown'

/** Creates, changes and deletes keys through both processes until `isOver`. Each worker has its own keys. */
export async function writeLoad(admin: Client, ledger: Ledger, isOver: () => boolean, workers = 8): Promise<void> {
  let names = 0
  const call = async (method: string, path: string, body?: object): Promise<Outcome> => {
    const process = random() < 0.5 ? 0 : 1
    ledger.inFlight[process] = (ledger.inFlight[process] ?? 0) + 1
    try {
      return evaluate(await admin(method, path, body, { process }), ledger)
    } catch (error) {
      // A response that does not match openapi.json is a separate failure.
      if (error instanceof AssertionError) throw error
      if ((error as { code?: string }).code !== 'ECONNREFUSED') {
        ledger.unanswered++
        return 'unknown'
      }
      await pause(20)
      ledger.refused++
      return 'unchanged'
    } finally {
      ledger.inFlight[process]--
    }
  }
  const worker = async () => {
    const mine: Entry[] = []
    while (!isOver()) {
      const description = `d${names++}`
      const at = randomBelow(mine.length)
      const entry = mine[at]
      const choice = random()
      if (!entry || mine.length < 5 || choice < 0.3) {
        const outcome = await call('POST', '/api_keys', { description })
        if (outcome === 'unknown') ledger.perhapsCreated.add(description)
        else if (outcome !== 'unchanged') {
          const created = { id: outcome.answer.body.id, description }
          ledger.entries.push(created)
          mine.push(created)
        }
        continue
      }
      const wanted = choice < 0.7 ? description : null
      const outcome =
        wanted === null
          ? await call('DELETE', `/api_keys/${entry.id}`)
          : await call('PATCH', `/api_keys/${entry.id}`, { description })
      if (outcome === 'unknown') entry.perhaps = wanted
      else if (outcome !== 'unchanged') entry.description = wanted
      if (outcome === 'unknown' || (outcome !== 'unchanged' && wanted === null)) mine.splice(at, 1)
    }
  }
  await Promise.all(Array.from({ length: workers }, worker))
}

/** ERR_UNAVAILABLE promises that nothing was changed: the ledger takes it at its word, so a broken promise is found. */
function evaluate(answer: Answer, ledger: Ledger): Outcome {
  const { status, body, text, headers } = answer
  if (status < 300) {
    ledger.acknowledged.set(headers.get('operation-id') ?? '', `${status}`)
    return { answer }
  }
  if (status === 503 && body.error_code === 'ERR_UNAVAILABLE') {
    ledger.refused++
    return 'unchanged'
  }
  if (status === 503 && body.error_code === 'ERR_OUTCOME_UNKNOWN') {
    ledger.unanswered++
    return 'unknown'
  }
  ledger.surprises.push(`lost: a right call on a key that must be there got ${text}`)
  return 'unknown'
}
