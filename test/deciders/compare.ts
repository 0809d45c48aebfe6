import type { Db } from '../../src/db/pool.ts'
import { makeWorld, seededRandom, type World } from './cases.ts'
import { bitString, naive, ours, postgres, prefixOf } from './deciders.ts'

const worldsAtOnce = 500

/** Puts generated cases to all three deciders. Resolves to where they disagree, and how many were allowed. */
export async function compareDeciders(db: Db, { cases: wanted, seed }: { cases: number; seed: number }) {
  const random = seededRandom(seed)
  const faults: string[] = []
  let cases = 0
  let allowed = 0
  while (cases < wanted) {
    const worlds = Array.from({ length: worldsAtOnce }, () => makeWorld(random))
    const fromPostgres = await postgres(db, worlds)
    for (const [index, world] of worlds.entries()) {
      const decisions = ours(world)
      const allows = naive(world.policies.flat())
      for (const [at, ip] of world.addresses.entries()) {
        if (cases === wanted) break
        const decision = decisions[at] as (typeof decisions)[number]
        const verdicts = [decision.allowed, fromPostgres[index]?.[at], allows(ip)]
        cases++
        if (decision.allowed) allowed++
        const fault =
          new Set(verdicts).size > 1 ? `we, PostgreSQL, naive: ${verdicts}` : faultOfNamedRule(world, ip, decision)
        if (fault) faults.push(`seed ${seed}: ${ip} ${fault} by ${JSON.stringify(world.policies)}`)
      }
    }
  }
  return { cases, allowed, faults }
}

/** The rule that a decision names must match the address, and have decided it. */
function faultOfNamedRule(
  { policies }: World,
  ip: string,
  { allowed, policy, rule }: { allowed: boolean; policy?: number; rule?: number },
): string | undefined {
  if (policy === undefined || rule === undefined) return allowed ? 'was allowed by no rule' : undefined
  const named = policies[policy]?.[rule]
  if (!named) return 'was decided by a rule that is not there'
  if (!bitString(ip)?.startsWith(prefixOf(named.cidr))) return `was decided by ${named.cidr}, which does not match it`
  return (named.action === 'allow') === allowed ? undefined : `was decided by a rule that says ${named.action}`
}
