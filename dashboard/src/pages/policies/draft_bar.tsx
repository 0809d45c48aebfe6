import { useQuery } from '@tanstack/react-query'
import { useDeferredValue } from 'react'
import type { Shapes } from '../../api/client.ts'
import type { Draft, Rule } from '../../rules.ts'
import { Button } from '../../ui/button.tsx'
import { Icon } from '../../ui/icons.tsx'
import { impactOf, isPartlyUnknown } from './impact.tsx'

/**
 * With more rules, the impact is computed only in the review: the request contains the whole set, several megabytes.
 */
const askedAtOnce = 20_000
const count = new Intl.NumberFormat('en')

type Props = {
  policyId: string
  draft: Draft
  /** The rules with the draft applied. */
  rules: readonly Rule[]
  onDiscard: () => void
  onReview: () => void
}

/** At the foot of the window: the unsaved changes and their impact. */
export function DraftBar({ policyId, draft, rules, onDiscard, onReview }: Props) {
  const asked = useDeferredValue(rules)
  const impact = useQuery({ ...impactOf(policyId, asked), enabled: asked.length <= askedAtOnce }).data
  return (
    <section className="draft" aria-label="Unsaved changes">
      <p className="strong">
        {draft.added.size} to add, {draft.removed.size} to remove. Not saved yet.
      </p>
      {impact && <Figures impact={impact} />}
      <div className="actions">
        <Button kind="quiet" onPress={onDiscard}>
          Discard
        </Button>
        <Button kind="primary" onPress={onReview}>
          Review and save
        </Button>
      </div>
    </section>
  )
}

const addresses = (total: number): string => `${count.format(total)} ${total === 1 ? 'address' : 'addresses'}`

/** An address may reach several edges and routes. Exact if all are listed; otherwise it counts repeatedly. */
function distinct(rows: Shapes['IpPolicyImpact']['traffic'], kind: 'newly_refused' | 'newly_allowed'): number {
  const total = rows.reduce((sum, row) => sum + row[kind].total, 0)
  const listed = rows.flatMap((row) => row[kind].addresses)
  return listed.length === total ? new Set(listed.map(({ ip }) => ip)).size : total
}

/** Figures of enforced restrictions; those that only warn are in the review. */
function Figures({ impact }: { impact: Shapes['IpPolicyImpact'] }) {
  const enforced = impact.traffic.filter((row) => row.enforced)
  const [refused, allowed] = [distinct(enforced, 'newly_refused'), distinct(enforced, 'newly_allowed')]
  const isUnknown = enforced.some(isPartlyUnknown)
  return (
    <ul className="draft-figures" aria-label="Effect on the addresses of the last week">
      {enforced.length === 0 && <li className="soft">Nothing enforces this policy.</li>}
      {allowed > 0 && (
        <li className="allowed">
          <Icon name="allowed" />
          {addresses(allowed)} newly allowed
        </li>
      )}
      {refused > 0 && (
        <li className="refused">
          <Icon name="refused" />
          {addresses(refused)} newly refused
        </li>
      )}
      {enforced.length > 0 && allowed + refused === 0 && (
        <li className="soft">No known address of the last week is affected</li>
      )}
      {isUnknown && (
        <li className="warned">
          <Icon name="warned" />
          Not all addresses that edges let in are known
        </li>
      )}
      <li className={impact.refuses_caller ? 'refused' : undefined}>
        <Icon name={impact.refuses_caller ? 'warned' : 'lock'} />
        {impact.refuses_caller ? 'You would be refused' : 'You keep access'}
      </li>
    </ul>
  )
}
