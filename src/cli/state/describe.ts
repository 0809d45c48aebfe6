import { cell } from '../output/table.ts'
import { printable, styled } from '../output/terminal.ts'
import { type Json, kinds, type Rule, type Thing } from './kinds.ts'
import { type Difference, type Plan, ruleChanges } from './plan.ts'

const called = (thing: Thing): string => (thing.kind === 'routes' ? 'route' : kinds[thing.kind].called)
export const titleOf = (thing: Thing): string =>
  `${called(thing)} ${printable(thing.name)}${thing.id ? ` (${thing.id})` : ''}`

type NameOf = (id: string) => string
const ruleText = ({ action, cidr, ...rest }: Rule) =>
  [action, cidr, ...Object.entries(rest).map(([name, value]) => `${name}=${cell(value)}`)].join(' ')
const maxRules = 20

/** A value as a person reads it: ids as the names that the file has for them. */
function told(value: unknown, nameOf: NameOf): string {
  if (value === undefined || value === null) return 'none'
  if (typeof value === 'string') return printable(nameOf(value)).replaceAll('\n', '\\n')
  if (Array.isArray(value)) return `[${value.map((each) => told(each, nameOf)).join(', ')}]`
  if (typeof value !== 'object') return String(value)
  return `{${Object.entries(value)
    .map(([name, each]) => `${printable(nameOf(name))}: ${told(each, nameOf)}`)
    .join(', ')}}`
}

function linesOf({ wanted, present, names }: Difference, nameOf: NameOf): string[] {
  const fields = names.flatMap((name) => fieldLines(name, present?.fields[name], wanted?.fields[name], nameOf))
  if (!wanted) return []
  const { added, removed } = ruleChanges(wanted.rules, present?.rules)
  const rules = [
    ...removed.map((rule) => styled('red', `- ${ruleText(rule)}`)),
    ...added.map((rule) => styled('green', `+ ${ruleText(rule)}`)),
  ]
  const more = rules.length - maxRules
  return [...fields, ...rules.slice(0, maxRules), ...(more > 0 ? [`… and ${more} more rules`] : [])]
}

function fieldLines(name: string, before: unknown, after: unknown, nameOf: NameOf): string[] {
  const areGroups = [before, after].every((value) => value && typeof value === 'object' && !Array.isArray(value))
  if (!areGroups) {
    const from = before === undefined ? '' : `${told(before, nameOf)} → `
    return [`${name}: ${from}${told(after, nameOf)}`]
  }
  const [old, next] = [before as Json, after as Json]
  return [...new Set([...Object.keys(old), ...Object.keys(next)])]
    .filter((inner) => JSON.stringify(old[inner]) !== JSON.stringify(next[inner]))
    .flatMap((inner) => fieldLines(`${name}.${printable(nameOf(inner))}`, old[inner], next[inner], nameOf))
}

/** The differences as a person would read them: + is missing in the account, ~ differs, - is only in the account. */
export function describePlan({ differences, pairs }: Plan, account: readonly Thing[]): string {
  const names = new Map(account.map((thing) => [thing.id ?? '', thing.name]))
  for (const [wanted, present] of pairs) names.set(present.id ?? '', wanted.name)
  const nameOf: NameOf = (id) => names.get(id) ?? (id.startsWith('\0') ? id.slice(id.indexOf(':') + 1) : id)
  return differences
    .map((difference) => {
      const { wanted, present } = difference
      const mark = !present ? styled('green', '+') : wanted ? styled('yellow', '~') : styled('red', '-')
      const thing = { ...(wanted ?? present), ...(present?.id && { id: present.id }) } as Thing
      return [`${mark} ${titleOf(thing)}`, ...linesOf(difference, nameOf).map((line) => `    ${line}`)].join('\n')
    })
    .join('\n')
}

export function summaryOf({ differences }: Plan): string {
  const count = (test: (difference: Difference) => boolean) => differences.filter(test).length
  const missing = count(({ present }) => !present)
  const different = count(({ wanted, present }) => Boolean(wanted && present))
  const surplus = count(({ wanted }) => !wanted)
  return `${missing} to create, ${different} to change, ${surplus} only in the account`
}
