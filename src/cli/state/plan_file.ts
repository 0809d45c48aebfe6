import { isDeepStrictEqual } from 'node:util'
import { Failure } from '../exits.ts'
import { type Json, kinds, type Rule, type Thing } from './kinds.ts'
import { type Difference, type Plan, ruleChanges } from './plan.ts'

const planVersion = 1

/** A machine-readable difference. */
export type PlainDifference = {
  readonly action: 'create' | 'change' | 'only_in_account'
  readonly kind: string
  readonly name: string
  readonly id?: string
  readonly fields?: Readonly<Record<string, { readonly before?: unknown; readonly after?: unknown }>>
  readonly rules_added?: readonly Rule[]
  readonly rules_removed?: readonly Rule[]
}

export type PlanFile = {
  readonly gatehouse_plan: number
  readonly account_id: string
  readonly differences: readonly PlainDifference[]
  /** Ties the plan to its state file, so that no later version of the file can be applied under it. */
  readonly state: string
}

export const plainDifferences = ({ differences }: Plan): PlainDifference[] => differences.map(plain)

function plain({ wanted, present, names }: Difference): PlainDifference {
  const { kind, name } = (wanted ?? present) as Thing
  const { added, removed } = wanted ? ruleChanges(wanted.rules, present?.rules) : { added: [], removed: [] }
  const fields = names.map((field) => [
    field,
    { before: withoutMarks(present?.fields[field]), after: withoutMarks(wanted?.fields[field]) },
  ])
  // Through JSON, so that the written and the parsed form can be compared.
  return JSON.parse(
    JSON.stringify({
      action: !present ? 'create' : wanted ? 'change' : 'only_in_account',
      kind: kind === 'routes' ? 'route' : kinds[kind].called,
      name,
      id: present?.id,
      ...(fields.length && { fields: Object.fromEntries(fields) }),
      ...(added.length && { rules_added: added }),
      ...(removed.length && { rules_removed: removed }),
    }),
  )
}

/** A resource that does not exist yet has no id: its name in the file stands for it. */
function withoutMarks(value: unknown): unknown {
  if (typeof value === 'string') return value.startsWith('\0') ? value.slice(value.indexOf(':') + 1) : value
  if (Array.isArray(value)) return value.map(withoutMarks)
  if (value === null || typeof value !== 'object') return value
  return Object.fromEntries(
    Object.entries(value as Json).map(([name, each]) => [String(withoutMarks(name)), withoutMarks(each)]),
  )
}

export const writePlan = (plan: Plan, accountId: string, state: string): string =>
  `${JSON.stringify({ gatehouse_plan: planVersion, account_id: accountId, differences: plainDifferences(plan), state }, null, 2)}\n`

/** Undefined if the text is a state file. A plan is JSON whose first field identifies it. */
export function readPlan(text: string): PlanFile | undefined {
  if (!/^\s*\{\s*"gatehouse_plan"/.test(text)) return undefined
  let plan: PlanFile
  try {
    plan = JSON.parse(text) as PlanFile
  } catch (cause) {
    throw new Failure('refused', `the plan is not valid JSON: ${(cause as Error).message}`, [], { cause })
  }
  const isWhole = typeof plan.state === 'string' && Array.isArray(plan.differences) && plan.account_id
  if (plan.gatehouse_plan !== planVersion || !isWhole)
    throw new Failure('refused', 'the plan is of another version', [
      'Make it again: gatehouse state diff FILE --out PLAN',
    ])
  return plan
}

/** A plan is applied only to its own account, and only while a new plan would be the same. */
export function checkPlan(saved: PlanFile, now: Plan, accountId: string): void {
  const again = 'Make the plan again, and review it: gatehouse state diff FILE --out PLAN'
  if (saved.account_id !== accountId)
    throw new Failure('refused', `the plan is for account ${saved.account_id}, and this is account ${accountId}`)
  const current = plainDifferences(now)
  if (isDeepStrictEqual(saved.differences, current)) return
  const isIn = (list: readonly PlainDifference[]) => (each: PlainDifference) =>
    list.some((other) => isDeepStrictEqual(each, other))
  const told = [
    ...current.filter((each) => !isIn(saved.differences)(each)).map((each) => `new: ${summaryOf(each)}`),
    ...saved.differences
      .filter((each) => !isIn(current)(each))
      .map((each) => `no longer as planned: ${summaryOf(each)}`),
  ]
  throw new Failure('refused', 'the account has changed since the plan was made; nothing was changed', [
    ...told.slice(0, 10),
    again,
  ])
}

const summaryOf = ({ action, kind, name, id }: PlainDifference): string =>
  `${action.replaceAll('_', ' ')} ${kind} ${name}${id ? ` (${id})` : ''}`
