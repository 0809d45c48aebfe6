import { useMayChange } from '../../api/may_change.ts'
import type { Rule } from '../../rules.ts'
import { Button } from '../../ui/button.tsx'
import { type Evidence, unusedDays } from './evidence.tsx'

const count = new Intl.NumberFormat('en')

type Props = {
  view: 'needless' | 'unused'
  /** Filtered rules, except those already in the draft. */
  rules: readonly Rule[]
  evidence: Evidence | undefined
  onRemove: (rules: readonly Rule[]) => void
}

/** Explains the filter and adds the removal of all matches to the draft. */
export function RemoveAll({ view, rules, evidence, onRemove }: Props) {
  const mayChange = useMayChange()
  return (
    <section className="selection" aria-label="What can be removed">
      <span>
        {view === 'needless'
          ? 'Other rules decide about every address of these. Without them, nothing changes.'
          : `Counted for ${unusedDays} days or longer, and none of them decided in the last ${unusedDays}.`}
        {evidence && evidence.nodesNotCounting > 0 && ' Some edge nodes do not report hits, so a few may be missing.'}
        {evidence && !evidence.isWhole && ' Only the newest 12,000 rules are looked at.'}
      </span>
      {mayChange && rules.length > 0 && (
        <Button isSmall onPress={() => onRemove(rules)}>
          {rules.length === 1 ? 'Remove this rule' : `Remove these ${count.format(rules.length)} rules`}
        </Button>
      )}
    </section>
  )
}
