import type { Shapes } from '../../api/client.ts'
import { dependentsOf, overwrittenBy } from '../../draft/changes.ts'
import { Button } from '../../ui/button.tsx'
import { Section } from '../../ui/section.tsx'

type Planned = Shapes['ChangeSet']['changes'][number]

/** Removing a change removes its dependents too. */
const takeOutText = (indexes: readonly number[]): string =>
  `Take out ${new Intl.ListFormat('en').format(indexes.map((index) => String(index + 1)))}`

type Props = {
  changes: readonly Planned[]
  /** Description of each change. */
  words: readonly string[]
  /** Undefined: this person may not remove them. */
  onTakeOut: ((index: number) => void) | undefined
  isPending: boolean
}

export function Changes({ changes, words, onTakeOut, isPending }: Props) {
  return (
    <Section title="Changes" note={changes.length}>
      <ol className="plain-list" aria-label="Changes">
        {words.map((text, index) => {
          const last = overwrittenBy(changes, index)
          return (
            // biome-ignore lint/suspicious/noArrayIndexKey: its place is what tells a change from another one
            <li key={index} className="planned">
              <span>
                {index + 1}. {text}
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
