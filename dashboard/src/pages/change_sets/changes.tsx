import type { Shapes } from '../../api/client.ts'
import { dependentsOf, overwrittenBy } from '../../draft/changes.ts'
import { Button } from '../../ui/button.tsx'
import { Section } from '../../ui/section.tsx'

type Planned = Shapes['ChangeSet']['changes'][number]

/** What needs it goes with it. */
const takeOutText = (indexes: readonly number[]): string =>
  `Take out ${new Intl.ListFormat('en').format(indexes.map((index) => String(index + 1)))}`

type Props = {
  changes: readonly Planned[]
  /** What each of them does. */
  words: readonly string[]
  /** Undefined: they are not this person's to take out. */
  onTakeOut: ((index: number) => void) | undefined
  isPending: boolean
}

/** The changes in their order. */
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
