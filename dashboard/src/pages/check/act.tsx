import { useQuery } from '@tanstack/react-query'
import { useMemo, useState } from 'react'
import type { Shapes } from '../../api/client.ts'
import { useMayChange } from '../../api/may_change.ts'
import { queries, useRefresh } from '../../api/queries.ts'
import {
  applied,
  asRange,
  type Draft,
  emptyDraft,
  type Rule,
  withAdded,
  withChanged,
  withRemoved,
} from '../../rules.ts'
import { Button } from '../../ui/button.tsx'
import { rulesOf } from '../policies/read.ts'
import { Review } from '../policies/review.tsx'
import { RuleForm } from '../policies/rule_form.tsx'

type Result = Shapes['IpCheckResult']
type Wanted = { policyId: string; deny?: string | undefined }

/** Changes that could let a refused address in: of the rule that denies it, or of any policy of the refusing step. */
export function choicesOf({ steps }: Result): Wanted[] {
  // Unenforced restrictions come last, because changing them lets no one in.
  const refusing = steps.find(({ allowed, enforced }) => !allowed && enforced) ?? steps.find(({ allowed }) => !allowed)
  const deny = refusing?.policies.find(({ action }) => action === 'deny')
  if (deny) return [{ policyId: deny.ip_policy.id, deny: deny.cidr ?? undefined }]
  return refusing?.policies.map(({ ip_policy }) => ({ policyId: ip_policy.id })) ?? []
}

/** Offers to let a refused address in: by a new rule or, because no allow overrides a deny, by changing the deny. */
export function Act({ result }: { result: Result }) {
  const [wanted, setWanted] = useState<Wanted>()
  const policies = useQuery(queries.policies()).data
  const mayChange = useMayChange()
  const choices = choicesOf(result)
  if (choices.length === 0 || !mayChange) return null
  const nameOf = (id: string) => policies?.find((policy) => policy.id === id)?.description ?? id
  const wordOf = ({ policyId, deny }: Wanted): string => {
    if (deny !== undefined) return 'Change rule…'
    return choices.length === 1 ? 'Allow this address…' : `Allow in ${nameOf(policyId)}…`
  }
  return (
    <div className="actions start check-act">
      {choices.slice(0, 3).map((choice) => (
        <Button key={choice.policyId} onPress={() => setWanted(choice)}>
          {wordOf(choice)}
        </Button>
      ))}
      {wanted && (
        <Change ip={result.ip} wanted={wanted} name={nameOf(wanted.policyId)} onClose={() => setWanted(undefined)} />
      )}
    </div>
  )
}

type ChangeProps = { ip: string; wanted: Wanted; name: string; from?: string; onClose: () => void }

/** The same review as for a draft on the policy page. */
export function Change({ ip, wanted: { policyId, deny }, name, from = 'From a check', onClose }: ChangeProps) {
  const rules = useQuery(rulesOf(policyId)).data
  const [draft, setDraft] = useState<Draft>()
  const refresh = useRefresh()
  const reviewed = useMemo(() => {
    if (!rules) return undefined
    const own: Rule = { cidr: asRange(ip), action: 'allow', description: from }
    const change = draft ?? withAdded(emptyDraft, rules, [own])
    return { rules, draft: change, after: applied(rules, change) }
  }, [rules, draft, ip, from])
  if (!rules || !reviewed) return null
  const rule = deny === undefined ? undefined : rules.find(({ action, cidr }) => action === 'deny' && cidr === deny)
  if (!draft && rule)
    return (
      <RuleForm
        rule={rule}
        onSave={(changed) => setDraft(withChanged(emptyDraft, rules, rule, changed))}
        onRemove={() => setDraft(withRemoved(emptyDraft, rules, [rule]))}
        onSaved={() => {}}
        onClose={onClose}
      />
    )
  return (
    <Review
      policyId={policyId}
      name={name}
      {...reviewed}
      onDraft={setDraft}
      onSaved={() => {
        onClose()
        return refresh('/ip_checks')
      }}
      onClose={onClose}
    />
  )
}
