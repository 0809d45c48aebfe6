import { one } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import type { Answer } from '../harness/client.ts'
import type { Account, ControlPlane } from '../harness/control_plane.ts'
import { policyWith, restrict } from '../harness/ip.ts'
import { pause } from '../harness/poll.ts'
import { random } from '../harness/random.ts'

type Through = { process: number }
/** A policy with one rule, a restriction of another policy, and all that an account needs to race for it. */
type Stage = { admin: Account; policy: string; rule: string; restriction: string; other: string; through: Through }
type Race = {
  act: (stage: Stage) => Promise<Answer>
  /** What may have happened: status of the act, then that of the deletion. Nothing else may. */
  outcomes: string[]
  /** Makes the stage ready for the next round. */
  undo?: (stage: Stage, answer: Answer) => Promise<unknown>
}

/** What can want a policy, or a rule of it, while the policy is being deleted. */
export const races: Record<string, Race> = {
  'attached by a new restriction': {
    act: ({ admin, policy, through }) =>
      admin('POST', '/ip_restrictions', { type: 'agent', ip_policy_ids: [policy] }, through),
    outcomes: ['201 409', '400 204'],
    undo: ({ admin }, { body }) => admin('DELETE', body.uri),
  },
  'attached by an update': {
    act: ({ admin, policy, restriction, other, through }) =>
      admin('PATCH', restriction, { ip_policy_ids: [other, policy] }, through),
    outcomes: ['200 409', '400 204'],
    undo: ({ admin, restriction, other }) => admin('PATCH', restriction, { ip_policy_ids: [other] }),
  },
  'given a rule': {
    act: ({ admin, policy, through }) =>
      admin('POST', '/ip_policy_rules', { ip_policy_id: policy, action: 'deny', cidr: '::1' }, through),
    outcomes: ['201 204', '400 204'],
  },
  'changed in a rule': {
    act: ({ admin, rule, through }) => admin('PATCH', rule, { cidr: '::2' }, through),
    outcomes: ['200 204', '404 204'],
  },
  'deprived of a rule': {
    act: ({ admin, rule, through }) => admin('DELETE', rule, undefined, through),
    outcomes: ['204 204', '404 204'],
  },
  'given other rules': {
    act: ({ admin, policy, through }) =>
      admin('PUT', `/ip_policies/${policy}/rules`, { rules: [{ action: 'deny', cidr: '::3' }] }, through),
    outcomes: ['200 204', '404 204'],
  },
}

/**
 * Deletes a policy through one process while it is wanted through the other. Resolves to how often each outcome came,
 * and to what must not have happened. Needs two processes; they take turns.
 */
export async function racePolicies(
  plane: Pick<ControlPlane, 'newAccount' | 'db'>,
  { kinds = Object.keys(races), rounds, atOnce = 6 }: { kinds?: string[]; rounds: number; atOnce?: number },
): Promise<{ outcomes: Record<string, number>; faults: string[] }> {
  const outcomes: Record<string, number> = {}
  const faults: string[] = []
  let begun = 0
  const worker = async () => {
    const admin = await plane.newAccount()
    const other = await policyWith(admin)
    const { uri: restriction } = await restrict(admin, { type: 'agent', ip_policy_ids: [other] })
    while (begun < rounds) {
      const round = begun++
      const kind = kinds[round % kinds.length] as string
      const race = races[kind] as Race
      const { body: policy } = await admin('POST', '/ip_policies', {})
      const { body: rule } = await admin('POST', '/ip_policy_rules', {
        ip_policy_id: policy.id,
        action: 'allow',
        cidr: '::1:0/112',
      })
      const turn = Math.floor(round / kinds.length) % 2
      const stage = { admin, policy: policy.id, rule: rule.uri, restriction, other, through: { process: turn } }
      // Neither always starts first, or one of them would nearly always win.
      const headStart = random() * 6 - 3
      const [acted, deleted] = await Promise.all([
        pause(Math.max(0, headStart)).then(() => race.act(stage)),
        pause(Math.max(0, -headStart)).then(() => admin('DELETE', policy.uri, undefined, { process: 1 - turn })),
      ])
      const outcome = `${acted.status} ${deleted.status}`
      outcomes[`${kind}: ${outcome}`] = (outcomes[`${kind}: ${outcome}`] ?? 0) + 1
      if (!race.outcomes.includes(outcome))
        faults.push(`round ${round}, ${kind}: ${outcome} ${acted.text} ${deleted.text}`)
      const isLeft = (await admin('GET', policy.uri)).status === 200
      if (isLeft !== (deleted.status === 409))
        faults.push(`round ${round}, ${kind}: ${outcome}, and the policy is left: ${isLeft}`)
      if (!isLeft) continue
      await race.undo?.(stage, acted)
      await admin('DELETE', policy.uri)
    }
  }
  await Promise.all(Array.from({ length: atOnce }, worker))
  const { dangling } = await one<{ dangling: number }>(
    plane.db,
    sql`
    select (select count(*) from ip_restriction_policies a
            where not exists (select from ip_policies p where p.account_id = a.account_id and p.id = a.ip_policy_id))
         + (select count(*) from ip_policy_rules r
            where not exists (select from ip_policies p where p.account_id = r.account_id and p.id = r.ip_policy_id)) as dangling`,
  )
  if (dangling) faults.push(`${dangling} references lead to policies that are gone`)
  return { outcomes, faults }
}
