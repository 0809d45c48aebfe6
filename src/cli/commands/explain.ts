import { call } from '../call.ts'
import { exits, usageFailure } from '../exits.ts'
import { callFlags, notAmong, parseOwn } from '../flags.ts'
import { write } from '../output/output.ts'
import { describeRows } from '../output/table.ts'
import { connect } from '../perform.ts'
import type { ClientConfig } from '../profiles.ts'
import { toMoment } from './audit_export.ts'

const usage = `Say whether an address is let in, and what decides about it, now or at an earlier time.

Usage
  gatehouse explain [flags] ADDRESS TARGET

TARGET is the id of a TCP edge or a route, or the kind of traffic: api, dashboard, agent, or
endpoints for all edges.

Flags
  --at TIME          as it was at this time (RFC 3339, or a date), worked out from the audit log;
                     only for admins
  --output FORMAT    text or json; default text
  --profile NAME     profile to use instead of the environment or the current profile
  --timeout SECONDS  how long a request may take; default 60
  -h, --help         show this help`

const options = { at: { type: 'string' }, output: { type: 'string', default: 'text' }, ...callFlags } as const

type Policy = { ip_policy: { id: string }; action: string | null; cidr: string | null }
type Step = {
  ip_restriction: { id: string } | null
  target: { id: string } | null
  enforced: boolean
  allowed: boolean
  policies: Policy[]
}
type Check = { ip: string; allowed: boolean; reason: string; steps: Step[] }

export async function explainCommand(config: ClientConfig, args: string[]): Promise<number> {
  const { values, positionals } = parseOwn({ args, options, allowPositionals: true }, usage)
  if (values.help) {
    write(usage)
    return exits.ok.code
  }
  const [ip, target, ...more] = positionals
  if (!ip || !target || more.length) throw usageFailure('an address and a target are needed', ...usage.split('\n'))
  if (!['text', 'json'].includes(values.output)) throw notAmong('--output', values.output, ['text', 'json'])
  const body = { ip, ...bodyOf(target), ...(values.at !== undefined && { at: toMoment(values.at) }) }
  const { text } = await call(connect(config, values), {
    method: 'POST',
    path: '/ip_checks',
    body: JSON.stringify(body),
  })
  if (values.output === 'json') write(text)
  else write(describe(JSON.parse(text) as Check, target, values.at))
  return exits.ok.code
}

const types = ['api', 'dashboard', 'agent', 'endpoints']

function bodyOf(target: string): object {
  if (target.startsWith('edgtcp_')) return { edge_id: target }
  if (target.startsWith('edghtsrt_')) return { route_id: target }
  if (types.includes(target)) return { type: target }
  throw usageFailure(
    `${target} is no target; it must be the id of a TCP edge or a route, or one of ${types.join(', ')}`,
  )
}

function describe({ ip, allowed, reason, steps }: Check, target: string, at: string | undefined): string {
  const then = at === undefined ? 'is' : 'was'
  const first = `${ip} ${then} ${allowed ? 'let in' : 'refused'} at ${target}${at === undefined ? '' : ` on ${at}`}.`
  if (steps.length === 0) return `${first}\n${reason}`
  const rows = steps.flatMap(({ ip_restriction, target: module, enforced, allowed, policies }) =>
    policies.map(({ ip_policy, action, cidr }) => ({
      by: ip_restriction?.id ?? module?.id,
      result: `${allowed ? 'allows' : 'refuses'}${enforced ? '' : ' (only warns)'}`,
      policy: ip_policy.id,
      rule: action ? `${action} ${cidr}` : 'none matches',
    })),
  )
  return `${first}\n${reason}\n\n${describeRows(rows, ['by', 'result', 'policy', 'rule'])}`
}
