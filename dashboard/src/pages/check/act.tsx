import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import type { Shapes } from '../../api/client.ts'
import { useMayChange } from '../../api/may_change.ts'
import { queries, useRefresh } from '../../api/queries.ts'
import { type Draft, emptyDraft, type Rule, withAdded, withChanged, withRemoved } from '../../rules.ts'
import { Button } from '../../ui/button.tsx'
import { rulesOf } from '../policies/read.ts'
import { Review } from '../policies/review.tsx'
import { RuleForm } from '../policies/rule_form.tsx'

type Result = Shapes['IpCheckResult']
type Wanted = { policyId: string; deny?: string | undefined }

/** What would let a refused address in: a rule of its own or, since no allow overrides a deny, another deny. */
export function Act({ result }: { result: Result }) {
  const [wanted, setWanted] = useState<Wanted>()
  const policies = useQuery(queries.policies()).data
  const mayChange = useMayChange()
  const refusing = result.steps.find(({ allowed }) => !allowed)
  if (!refusing || !mayChange) return null
  const nameOf = (id: string) => policies?.find((policy) => policy.id === id)?.description ?? id
  const denies = refusing.policies.filter(({ action }) => action === 'deny')
  const [first] = denies
  const choices = first ? [first] : refusing.policies
  return (
    <div className="actions start check-act">
      {choices.slice(0, 3).map(({ ip_policy: { id }, cidr }) => (
        <Button key={id} onPress={() => setWanted({ policyId: id, deny: first ? (cidr ?? undefined) : undefined })}>
          {first ? 'Change rule…' : choices.length === 1 ? 'Allow this address…' : `Allow in ${nameOf(id)}…`}
        </Button>
      ))}
      {wanted && (
        <Change ip={result.ip} wanted={wanted} name={nameOf(wanted.policyId)} onClose={() => setWanted(undefined)} />
      )}
    </div>
  )
}

type ChangeProps = { ip: string; wanted: Wanted; name: string; onClose: () => void }

/** The same review as for a draft of the policy's page. */
function Change({ ip, wanted: { policyId, deny }, name, onClose }: ChangeProps) {
  const rules = useQuery(rulesOf(policyId)).data
  const [draft, setDraft] = useState<Draft>()
  const refresh = useRefresh()
  if (!rules) return null
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
  const own: Rule = { cidr: `${ip}/${ip.includes(':') ? 128 : 32}`, action: 'allow', description: 'From a check' }
  return (
    <Review
      policyId={policyId}
      name={name}
      draft={draft ?? withAdded(emptyDraft, rules, [own])}
      onDraft={setDraft}
      onSaved={() => {
        onClose()
        return refresh('/ip_checks')
      }}
      onClose={onClose}
    />
  )
}
