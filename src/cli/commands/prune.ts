import { toRuleLine } from '../../kernel/ip/rule_line.ts'
import { type Connection, call } from '../call.ts'
import { exits, usageFailure } from '../exits.ts'
import { callFlags, parseOwn } from '../flags.ts'
import { write } from '../output/output.ts'
import { describeRows } from '../output/table.ts'
import { canAsk, confirm, log } from '../output/terminal.ts'
import { allPages } from '../pages.ts'
import { connect } from '../perform.ts'
import type { ClientConfig } from '../profiles.ts'

const usage = `Remove rules of an IP policy that are not needed: those that other rules cover, and those that
have not decided for a while.

Usage
  gatehouse ip-policies prune ID [flags]

Flags
  --unused-days DAYS  rules that have been counted for DAYS days and decided nothing in that time
  --covered           rules that other rules shadow or make redundant; default without --unused-days
  --dry-run           show them and the effect, and remove nothing
  --yes               remove them without asking
  --confirm           with --yes: even if these are more than half of the rules, and more than 20
  --allow-self-lockout  even if that locks this key's address out
  --ignore-access-tests even if that breaks access tests; only for admins
  --profile NAME      profile to use instead of the environment or the current profile
  --timeout SECONDS   how long a request may take; default 60
  -h, --help          show this help

It shows the rules and what removing them would do to the addresses of the last week, and asks.
Without a terminal and without --yes, nothing is removed.`

const options = {
  'unused-days': { type: 'string' },
  covered: { type: 'boolean' },
  'dry-run': { type: 'boolean' },
  yes: { type: 'boolean' },
  confirm: { type: 'boolean' },
  'allow-self-lockout': { type: 'boolean' },
  'ignore-access-tests': { type: 'boolean' },
  ...callFlags,
} as const

type Evidence = { id: string; covered: string | null; last_hit_at: string | null; counted_since: string }
type List = { rule_evidence: Evidence[]; nodes_not_counting: number }
type Flipped = {
  newly_refused: { total: number }
  newly_allowed: { total: number }
  enforced: boolean
  let_in_known: string
  unknown_at: unknown[]
}

/** Maximum rules that the service removes in one change. */
const atOnce = 1_000
const dayMs = 86_400_000

/** `gatehouse ip-policies prune`: lists the evidence, shows the effect, asks, and makes one change. */
export async function pruneCommand(config: ClientConfig, args: string[]): Promise<number> {
  const { values, positionals } = parseOwn({ args, options, allowPositionals: true }, usage)
  if (values.help) {
    write(usage)
    return exits.ok.code
  }
  const [id, ...more] = positionals
  if (id === undefined || more.length > 0) throw usageFailure('one policy ID is needed', ...usage.split('\n'))
  const days = values['unused-days'] === undefined ? undefined : Number(values['unused-days'])
  if (days !== undefined && !(days >= 1 && days <= 3_650)) throw usageFailure('--unused-days must be 1 to 3650')
  const connection = connect(config, values)
  const path = `/ip_policies/${encodeURIComponent(id)}`
  const found = await rulesToPrune(connection, path, days, values.covered ?? days === undefined)
  if (found.length === 0) {
    log('No such rules: nothing to remove.')
    return exits.ok.code
  }
  const fields = ['id', 'action', 'cidr', 'covered', 'hits_30d', 'last_hit_at', 'counted_since', 'description']
  write(describeRows(found, fields))
  log(await effectOf(connection, path, new Set(found.map((rule) => rule.id))))
  if (values['dry-run']) {
    log('This was a dry run: nothing was removed.')
    return exits.ok.code
  }
  const question = `Remove ${found.length === 1 ? 'this rule' : `these ${found.length} rules`}?`
  const isAnswered = !values.yes && canAsk() && (await confirm(question))
  if (!values.yes && !isAnswered) {
    log(`Nothing was removed. To remove ${found.length === 1 ? 'it' : 'them'}, add --yes.`)
    return exits.ok.code
  }
  const query = {
    ...(values['allow-self-lockout'] && { allow_self_lockout: 'true' }),
    // The answer referred to exactly these rules.
    ...((values.confirm || isAnswered) && { confirm: 'true' }),
    ...(values['ignore-access-tests'] && { ignore_access_tests: 'true' }),
  }
  for (let from = 0; from < found.length; from += atOnce) {
    const rule_ids = found.slice(from, from + atOnce).map((rule) => rule.id)
    const body = JSON.stringify({ rule_ids })
    const answer = await call(connection, {
      method: 'POST',
      path: `${path}/remove_rules`,
      query,
      body,
      contentType: 'application/json',
    })
    const { removed, rules } = JSON.parse(answer.text) as { removed: number; rules: number }
    log(`Removed ${removed}. The policy has ${rules} rules now.`)
  }
  return exits.ok.code
}

/** Excludes subdivided rules: their parts are redundant because of them, and removing all would change decisions. */
async function rulesToPrune(connection: Connection, path: string, days: number | undefined, covered: boolean) {
  const read = async (query: Record<string, unknown>): Promise<List> =>
    JSON.parse(
      (await allPages(connection, 'rule_evidence', { method: 'GET', path: `${path}/rule_evidence`, query })).text,
    )
  const found = new Map<string, Evidence>()
  if (covered)
    for (const kind of ['shadowed', 'redundant'])
      for (const rule of (await read({ covered: kind, limit: 100 })).rule_evidence) found.set(rule.id, rule)
  if (days !== undefined) {
    const unused_since = new Date(Date.now() - days * dayMs).toISOString()
    const { rule_evidence, nodes_not_counting: silent } = await read({ unused_since, limit: 100 })
    for (const rule of rule_evidence) found.set(rule.id, rule)
    if (silent > 0)
      log(
        `warning: ${silent} known edge ${silent === 1 ? 'node does' : 'nodes do'} not report hits, so some may be missing.`,
      )
  }
  return [...found.values()]
}

/** The effect of the remaining rules on the addresses of the last week. */
async function effectOf(connection: Connection, path: string, gone: ReadonlySet<string>): Promise<string> {
  const { text } = await call(connection, { method: 'GET', path: `${path}/rules`, accept: 'application/json' })
  const { rules } = JSON.parse(text) as { rules: { id: string; action: string; cidr: string }[] }
  const kept = rules.filter(({ id }) => !gone.has(id))
  const answer = await call(connection, {
    method: 'POST',
    path: `${path}/impact`,
    body: kept.map(toRuleLine).join('\n'),
    contentType: 'text/plain',
  })
  const { traffic } = JSON.parse(answer.text) as { traffic: Flipped[] }
  const sum = (of: 'newly_refused' | 'newly_allowed') =>
    traffic.filter(({ enforced }) => enforced).reduce((total, each) => total + each[of].total, 0)
  const [refused, allowed] = [sum('newly_refused'), sum('newly_allowed')]
  const isUnknown = traffic.some(
    (each) => each.enforced && (each.let_in_known === 'none' || each.unknown_at.length > 0),
  )
  const unknown = isUnknown
    ? ' Unknown: not all edges and routes with the policy have reported the addresses that they let in.'
    : ''
  if (refused + allowed === 0) return `No known address of the last week is affected.${unknown}`
  return `${refused} of the known addresses of the last week would be refused and ${allowed} let in.${unknown}`
}
