import { useState } from 'react'
import { type ApprovalKind, approvalKinds } from '../../../src/kernel/approval.ts'
import { $api, answerOf, api } from '../api/client.ts'
import { useRefresh } from '../api/queries.ts'
import { Button } from '../ui/button.tsx'
import { FormDialog } from '../ui/form_dialog.tsx'
import { Loaded } from '../ui/loading.tsx'
import { Section } from '../ui/section.tsx'
import { useDraft } from '../ui/use_draft.ts'

const names: Record<ApprovalKind, string> = {
  access_tests: 'Access tests',
  backends: 'Backends',
  edges: 'Edges, their routes and modules',
  ip_policies: 'IP policies and their rules',
  ip_restrictions: 'IP restrictions',
  reserved_domains: 'Domains',
}

/** Which changes another admin has to approve. Everyone sees it; admins set it. */
export function ApprovalPolicy() {
  const found = $api.useQuery('get', '/approval_policy')
  const isAdmin = $api.useQuery('get', '/caller').data?.role === 'admin'
  const [isEditing, setEditing] = useState(false)
  return (
    <Section
      title="Approval"
      action={isAdmin && found.data && <Button onPress={() => setEditing(true)}>Change approval</Button>}
    >
      <Loaded query={found} lines={2}>
        {({ required_for }) => (
          <>
            {required_for.length === 0 ? (
              <p>No change needs the approval of another admin.</p>
            ) : (
              <>
                <p>Another admin has to approve changes of:</p>
                <ul aria-label="Changes that need approval">
                  {required_for.map((kind) => (
                    <li key={kind}>{names[kind]}</li>
                  ))}
                  <li>Users, their identities, and this setting</li>
                </ul>
                <BreakGlass />
              </>
            )}
            {isEditing && <EditApproval requiredFor={required_for} onClose={() => setEditing(false)} />}
          </>
        )}
      </Loaded>
    </Section>
  )
}

/** How to go on when no one can approve in time. */
function BreakGlass() {
  return (
    <p className="soft">
      In an emergency, an admin makes a change without approval on the command line, with{' '}
      <code>--break-glass --service-reason 'why'</code>. The audit log keeps the reason, webhooks send it, and the
      operator is alerted. This also works to turn approval off when only one admin is left.
    </p>
  )
}

type EditProps = { requiredFor: readonly ApprovalKind[]; onClose: () => void }

function EditApproval({ requiredFor, onClose }: EditProps) {
  const { values, set, isDirty } = useDraft<{ kinds: readonly ApprovalKind[] }>({ kinds: requiredFor })
  const refresh = useRefresh()
  const required_for = approvalKinds.filter((kind) => values.kinds.includes(kind))
  return (
    <FormDialog
      title="Change approval"
      action="Save approval"
      isDirty={isDirty}
      save={() => answerOf(api.PUT('/approval_policy', { body: { required_for } }))}
      onSaved={async () => {
        await refresh('/approval_policy')
        onClose()
      }}
      onClose={onClose}
    >
      <fieldset className="picker">
        <legend className="label">Changes that another admin has to approve</legend>
        <div className="picker-list">
          {approvalKinds.map((kind) => (
            <label key={kind} className="check">
              <input
                type="checkbox"
                checked={values.kinds.includes(kind)}
                onChange={({ target }) =>
                  set('kinds')(
                    approvalKinds.filter((each) => (each === kind ? target.checked : values.kinds.includes(each))),
                  )
                }
              />
              <span>{names[kind]}</span>
            </label>
          ))}
        </div>
      </fieldset>
      <p>
        Such a change is not made when it is saved. It waits under Change sets until an admin who did not make it
        approves it, and is then applied. As long as any kind is chosen, changes of users, of their identities and of
        this setting need approval too.
      </p>
      <BreakGlass />
    </FormDialog>
  )
}
