import type { Shapes } from '../../api/client.ts'
import { dependentsOf, overwrittenBy } from '../../draft/changes.ts'
import { operations } from '../../generated/operations.ts'
import { Button } from '../../ui/button.tsx'
import { Section } from '../../ui/section.tsx'
import { type Names, useNames } from '../traffic/names.ts'

type Planned = Shapes['ChangeSet']['changes'][number]

const summaryOf = new Map(operations.map(({ id, summary }) => [id, summary]))
const reference = /^\{\{changes\[(\d+)\]\.id\}\}$/

/** What a change is about: by its name, if it has one already. */
function targetOf({ parameters = {}, body = {} }: Planned, names: Names): string {
  const { id, edge_id } = parameters
  const { description, match, hostports, cidr, address } = body as Record<string, unknown>
  const text = (value: unknown): string => {
    const [, index] = reference.exec(String(value)) ?? []
    if (index) return `what change ${Number(index) + 1} creates`
    return names.route(String(value)) ?? names.edge(String(value))
  }
  const own = id ?? description ?? match ?? (Array.isArray(hostports) ? hostports[0] : undefined) ?? cidr ?? address
  return [edge_id, own].flatMap((each) => (each === undefined || each === '' ? [] : [text(each)])).join(' ')
}

/** What needs it goes with it. */
const takeOutText = (indexes: readonly number[]): string =>
  `Take out ${new Intl.ListFormat('en').format(indexes.map((index) => String(index + 1)))}`

type Props = {
  changes: readonly Planned[]
  /** Undefined: they are not this person's to take out. */
  onTakeOut: ((index: number) => void) | undefined
  isPending: boolean
}

/** The changes in their order, in the words of the operations. */
export function Changes({ changes, onTakeOut, isPending }: Props) {
  const names = useNames()
  return (
    <Section title="Changes" note={changes.length}>
      <ol className="plain-list" aria-label="Changes">
        {changes.map((change, index) => {
          const target = targetOf(change, names)
          const last = overwrittenBy(changes, index)
          return (
            // biome-ignore lint/suspicious/noArrayIndexKey: its place is what tells a change from another one
            <li key={index} className="planned">
              <span>
                {index + 1}. {summaryOf.get(change.operation) ?? change.operation}{' '}
                <span className="mono">{target}</span>
                {last !== undefined && (
                  <span className="soft"> Without effect: change {last + 1} sets the same to something else.</span>
                )}
              </span>
              {onTakeOut && (
                <Button isDisabled={isPending} onPress={() => onTakeOut(index)}>
                  {takeOutText([...dependentsOf(changes, index)])}
                </Button>
              )}
            </li>
          )
        })}
      </ol>
    </Section>
  )
}
