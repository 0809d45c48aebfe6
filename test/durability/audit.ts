import { type DbPool, many } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { type Id, toId, toUuid, type Uuid } from '../../src/kernel/ids.ts'
import type { Ledger } from './ledger.ts'

type Shown = { description?: string } | null
type Event = { resource_id: string; operation_id: string; before: Shown; after: Shown }

/** Where the database contradicts the acknowledgments in the ledger, and the audit contradicts the database. */
export async function ledgerFaults(db: DbPool, accountId: string, ledger: Ledger): Promise<string[]> {
  const account = toUuid(accountId as Id)
  const rows = await many<{ id: Uuid; description: string | null }>(
    db,
    sql`select id, description from api_keys where account_id = ${account} and description is distinct from 'bootstrap'`,
  )
  const kept = new Map(rows.map(({ id, description }) => [toId('ak', id) as string, description]))
  const events = await many<Event>(
    db,
    sql`select resource_id, operation_id, before, after from audit_events
        where account_id = ${account} and operation like 'api_keys.%'`,
  )
  return [...ledger.surprises, ...keyFaults(kept, ledger), ...eventFaults(kept, events, ledger)]
}

function keyFaults(kept: Map<string, string | null>, { entries, perhapsCreated }: Ledger): string[] {
  const known = new Set(entries.map(({ id }) => id))
  const faults = entries.flatMap(({ id, description, perhaps }) => {
    const now = kept.get(id) ?? null
    if (now === description || (perhaps !== undefined && now === perhaps)) return []
    if (description === null) return [`came back: ${id} was deleted and is there with ${now}`]
    return [`lost: ${id} must have ${description}${perhaps === undefined ? '' : ` or ${perhaps}`} and has ${now}`]
  })
  for (const [id, description] of kept) {
    if (!known.has(id) && !perhapsCreated.has(description ?? '')) faults.push(`appeared: ${id} was never created`)
  }
  return faults
}

/** The events of a key must lead, each from where the one before ended, from nothing to what is there now. */
function eventFaults(kept: Map<string, string | null>, events: Event[], { entries, acknowledged }: Ledger): string[] {
  const audited = new Set(events.map(({ operation_id }) => operation_id))
  const faults = [...acknowledged.keys()].filter((id) => !audited.has(id)).map((id) => `${id} has no audit event`)
  if (audited.size !== events.length) faults.push(`${events.length} events for ${audited.size} operations`)
  const byKey = Map.groupBy(events, ({ resource_id }) => resource_id)
  for (const id of new Set([...kept.keys(), ...byKey.keys(), ...entries.map((entry) => entry.id)])) {
    const from = new Map((byKey.get(id) ?? []).map((event) => [event.before?.description ?? null, event]))
    let state: string | null = null
    let steps = 0
    for (let event = from.get(null); event; event = state === null ? undefined : from.get(state)) {
      state = event.after?.description ?? null
      steps++
    }
    const now = kept.get(id) ?? null
    if (state !== now) faults.push(`the audit of ${id} ends with ${state}, the key has ${now}`)
    const all = byKey.get(id)?.length ?? 0
    if (steps !== all) faults.push(`${id} has ${all} events of which ${steps} follow from each other`)
  }
  return faults
}
