import { fieldLines, marks, type NameOf } from '../output/differences.ts'
import { cell } from '../output/table.ts'
import { printable, styled } from '../output/terminal.ts'
import { kinds, type Rule, type Thing } from './kinds.ts'
import { type Difference, type Plan, ruleChanges } from './plan.ts'

const called = (thing: Thing): string => (thing.kind === 'routes' ? 'route' : kinds[thing.kind].called)
export const titleOf = (thing: Thing): string =>
  `${called(thing)} ${printable(thing.name)}${thing.id ? ` (${thing.id})` : ''}`

const ruleText = ({ action, cidr, ...rest }: Rule) =>
  [action, cidr, ...Object.entries(rest).map(([name, value]) => `${name}=${cell(value)}`)].join(' ')
const maxRules = 20

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

/** The differences for people: + is missing in the account, ~ differs, - is only in the account. */
export function describePlan({ differences, pairs }: Plan, account: readonly Thing[]): string {
  const names = new Map(account.map((thing) => [thing.id ?? '', thing.name]))
  for (const [wanted, present] of pairs) names.set(present.id ?? '', wanted.name)
  const nameOf: NameOf = (id) => names.get(id) ?? (id.startsWith('\0') ? id.slice(id.indexOf(':') + 1) : id)
  return differences
    .map((difference) => {
      const { wanted, present } = difference
      const mark = !present ? marks.created : wanted ? marks.changed : marks.deleted
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
