import type { AttachedModule, Evaluate, Verdict } from '../../access/decisions.ts'
import { noTarget, type OutcomeRow } from '../../access/evidence/address_outcomes.ts'
import { refusalIn } from '../../access/refusal.ts'
import type { DbPool } from '../../db/pool.ts'
import type { Caller } from '../../identity/caller.ts'
import { type Id, toId, type Uuid } from '../../kernel/ids.ts'
import { parseAddress } from '../../kernel/ip/address.ts'
import { findModulePolicies } from '../edges/store.ts'
import { listTargets, type TargetRow } from './store.ts'

export type RefusedNow = {
  /** Undefined for traffic of the API and the dashboard. */
  target: (TargetRow & { publicId: Id }) | undefined
  /** Undefined: the target's module decided. */
  restrictionId: Uuid | undefined
  verdict: Verdict
}

type Refuser = {
  /** Undefined if the address is let in now, or its edge or route is gone. */
  (row: OutcomeRow): Promise<RefusedNow | undefined>
  /** Loads the edges and routes of these rows in one query. */
  learn: (rows: readonly OutcomeRow[]) => Promise<void>
}

/** Decides about each address as the API or an edge does now. */
export function createRefuser(db: DbPool, caller: Caller, evaluate: Evaluate): Refuser {
  const targets = new Map<Uuid, TargetRow | undefined>()
  const modules = new Map<Uuid, AttachedModule | undefined>()

  /** Reads the target's module for the first address, and again if it changed since. */
  async function moduleVerdict(id: Uuid, address: ReturnType<typeof parseAddress>) {
    let isKnown = modules.has(id)
    const read = async () => {
      if (!isKnown) modules.set(id, await findModulePolicies(db, caller, id))
      isKnown = false
      return modules.get(id)
    }
    return evaluate.byModule(caller, read, address)
  }

  const refusalOf = async ({ type, target_id, ip }: OutcomeRow): Promise<RefusedNow | undefined> => {
    const isAtEdge = target_id !== noTarget
    const row = targets.get(target_id)
    if (isAtEdge && !row) return undefined
    const target = row && { ...row, publicId: toId(row.kind === 'tcp' ? 'edgtcp' : 'edghtsrt', row.id) }
    const address = parseAddress(ip)
    const module = isAtEdge ? await moduleVerdict(target_id, address) : undefined
    if (module?.enforced && !module.allowed) return { target, restrictionId: undefined, verdict: module }
    const refusal = refusalIn(await evaluate(caller, type, address))
    return refusal && { target, restrictionId: refusal.restrictionId, verdict: refusal }
  }
  return Object.assign(refusalOf, {
    async learn(rows: readonly OutcomeRow[]) {
      const ids = [...new Set(rows.map(({ target_id }) => target_id))].filter(
        (id) => id !== noTarget && !targets.has(id),
      )
      if (ids.length === 0) return
      for (const id of ids) targets.set(id, undefined)
      for (const row of await listTargets(db, caller, ids)) targets.set(row.id, row)
    },
  })
}
