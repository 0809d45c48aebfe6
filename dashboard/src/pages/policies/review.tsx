import { useQuery } from '@tanstack/react-query'
import { useRef } from 'react'
import { answerOf, api, isRecording } from '../../api/client.ts'
import { useRefresh } from '../../api/queries.ts'
import { LockoutNote } from '../../lockout.tsx'
import { applied, asRange, asText, type Draft, keyOf, type Rule, withAdded } from '../../rules.ts'
import { Badge } from '../../ui/badge.tsx'
import { FormDialog } from '../../ui/form_dialog.tsx'
import { isUnusual, UnusualNote } from '../../unusual.tsx'
import { Impact, impactOf } from './impact.tsx'
import { readRulesWithIds } from './read.ts'

type Props = {
  policyId: string
  name: string
  /** The current rules, and the rules with the draft applied. */
  rules: readonly Rule[]
  after: readonly Rule[]
  draft: Draft
  onDraft: (draft: Draft) => void
  onSaved: () => void
  onClose: () => void
}

/** A draft of removals only deletes the named rules. More than the API's limit replaces the whole set. */
const mostRemovedAtOnce = 1_000
/** A draft lists single rules, which can be undone; for a whole set it knows only their number. */
const mostInDraft = 100
type Variant = { draft?: Draft; allowSelfLockout?: boolean }

/** Shows the changes and their impact on the addresses of the last week before saving. */
export function Review({ policyId, name, rules, after, draft, onDraft, onSaved, onClose }: Props) {
  const refresh = useRefresh()
  // A retry after a lockout warning does not ask again.
  const isConfirmed = useRef(false)
  const impact = useQuery(impactOf(policyId, after))
  async function save({ draft: wanted = draft, allowSelfLockout }: Variant = {}): Promise<void> {
    // Applies the draft to the current rules: someone else may have changed them since this page read them.
    const fresh = await readRulesWithIds(policyId)
    const query = {
      ...(allowSelfLockout && { allow_self_lockout: true }),
      ...(isConfirmed.current && { confirm: true }),
    }
    const params = { path: { id: policyId }, query }
    if (isRecording() && wanted.added.size + wanted.removed.size <= mostInDraft)
      return eachRule(policyId, fresh, wanted, allowSelfLockout)
    const gone = fresh.filter((rule) => wanted.removed.has(keyOf(rule)))
    if (wanted.added.size === 0 && gone.length > 0 && gone.length <= mostRemovedAtOnce) {
      const body = { rule_ids: gone.map(({ id }) => id) }
      await answerOf(api.POST('/ip_policies/{id}/remove_rules', { params, body }))
      return
    }
    const kept = fresh.map(({ id: _, ...rule }) => rule)
    await answerOf(api.PUT('/ip_policies/{id}/rules', { params, ...asText(applied(kept, wanted)) }))
  }
  return (
    <FormDialog
      title={`Change ${name}`}
      wide
      tall
      action="Save rules"
      cancel="Back"
      // A review without the impact would be pointless.
      isWaiting={impact.isPending}
      canDraft
      onDrafted={onSaved}
      save={save}
      onSaved={async () => {
        await refresh('/ip_policies/{id}/rules')
        onSaved()
      }}
      onClose={onClose}
      explain={(error, retry, isPending) =>
        isUnusual(error) ? (
          <UnusualNote
            error={error}
            isPending={isPending}
            onConfirm={() => {
              isConfirmed.current = true
              retry({})
            }}
          />
        ) : (
          <LockoutNote
            error={error}
            isPending={isPending}
            onAllow={(address) => {
              const own: Rule = {
                cidr: asRange(address),
                action: 'allow',
                description: 'My address, to avoid a lockout',
              }
              const safer = withAdded(draft, rules, [own])
              onDraft(safer)
              retry({ draft: safer })
            }}
            onInsist={() => retry({ allowSelfLockout: true })}
          />
        )
      }
    >
      <p>
        {rules.length === 1 ? '1 rule becomes' : `${rules.length} rules become`} <strong>{after.length}</strong>.
      </p>
      <div className="columns">
        <Excerpt title={`${draft.added.size} added or changed`} sign="+" rules={[...draft.added.values()]} />
        <Excerpt title={`${draft.removed.size} removed`} sign="−" rules={[...draft.removed.values()]} />
      </div>
      <Impact query={impact} />
    </FormDialog>
  )
}

async function eachRule(
  policyId: string,
  fresh: Awaited<ReturnType<typeof readRulesWithIds>>,
  { added, removed }: Draft,
  allowSelfLockout: boolean | undefined,
): Promise<void> {
  const query = allowSelfLockout ? { allow_self_lockout: true } : {}
  const byKey = new Map(fresh.map((rule) => [keyOf(rule), rule]))
  for (const [key, { cidr, action, description = '', metadata = '', expires_at }] of added) {
    const known = byKey.get(key)
    const fields = { description, metadata, expires_at: expires_at ?? null }
    await (known
      ? answerOf(api.PATCH('/ip_policy_rules/{id}', { params: { path: { id: known.id }, query }, body: fields }))
      : answerOf(
          api.POST('/ip_policy_rules', {
            params: { query },
            body: { ip_policy_id: policyId, cidr, action, description, metadata, ...(expires_at && { expires_at }) },
          }),
        ))
  }
  for (const key of removed.keys()) {
    const known = byKey.get(key)
    if (known) await answerOf(api.DELETE('/ip_policy_rules/{id}', { params: { path: { id: known.id }, query } }))
  }
}

function Excerpt({ title, sign, rules }: { title: string; sign: string; rules: readonly Rule[] }) {
  if (rules.length === 0) return null
  return (
    <div>
      <h3>{title}</h3>
      <ul className="excerpt mono">
        {rules.slice(0, 8).map(({ action, cidr, description }) => (
          <li key={`${action} ${cidr}`}>
            <span aria-hidden="true">{sign}</span>{' '}
            <Badge tone={action === 'allow' ? 'allowed' : 'refused'}>{action}</Badge> {cidr}{' '}
            <span className="soft">{description}</span>
          </li>
        ))}
        {rules.length > 8 && <li className="soft">and {rules.length - 8} more</li>}
      </ul>
    </div>
  )
}
