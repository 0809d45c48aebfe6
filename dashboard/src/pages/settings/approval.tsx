import { useState } from 'react'
import { type ApprovalKind, approvalKinds } from '../../../../src/kernel/approval.ts'
import { $api, answerOf, api, type Shapes } from '../../api/client.ts'
import { useRefresh } from '../../api/queries.ts'
import { Button } from '../../ui/button.tsx'
import { FormDialog } from '../../ui/form_dialog.tsx'
import { Loaded } from '../../ui/loading.tsx'
import { useDraft } from '../../ui/use_draft.ts'
import { Line } from './line.tsx'

const names: Record<ApprovalKind, string> = {
  access_tests: 'Access tests',
  backends: 'Backends',
  edges: 'Edges, their routes and modules',
  ip_policies: 'IP policies and their rules',
  ip_restrictions: 'IP restrictions',
  reserved_domains: 'Domains',
}

/** Which changes need another admin's approval. Visible to everyone, editable by admins. */
export function Approval({ caller: { role } }: { caller: Shapes['Caller'] }) {
  const found = $api.useQuery('get', '/approval_policy')
  const [isEditing, setEditing] = useState(false)
  return (
    <Loaded query={found} lines={2}>
      {({ required_for }) => (
        <>
          <Line
            title="Changes that need approval"
            end={role === 'admin' && <Button onPress={() => setEditing(true)}>Change approval</Button>}
          >
            {required_for.length === 0
              ? 'No change needs the approval of another admin.'
              : 'Another admin has to approve changes of these. Until then they wait under Change sets.'}
          </Line>
          {required_for.length > 0 && (
            <div className="setting-line">
              <div>
                <ul aria-label="Changes that need approval">
                  {required_for.map((kind) => (
                    <li key={kind}>{names[kind]}</li>
                  ))}
                  <li>Users, their identities, and this setting</li>
                </ul>
                <BreakGlass />
              </div>
            </div>
          )}
          {isEditing && <EditApproval requiredFor={required_for} onClose={() => setEditing(false)} />}
        </>
      )}
    </Loaded>
  )
}

/** How to proceed if no one can approve in time. */
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
