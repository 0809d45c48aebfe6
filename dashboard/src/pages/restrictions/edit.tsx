import { useState } from 'react'
import { LockoutNote } from '../../lockout.tsx'
import { PolicyPicker } from '../../policy_picker.tsx'
import { Button } from '../../ui/button.tsx'
import { Dialog } from '../../ui/dialog.tsx'
import { Field } from '../../ui/field.tsx'
import { type Restriction, useChange } from './change.ts'

export function EditRestriction({ restriction, onClose }: { restriction: Restriction; onClose: () => void }) {
  const [description, setDescription] = useState(restriction.description ?? '')
  const [policies, setPolicies] = useState(restriction.ip_policies.map(({ id }) => id))
  const change = useChange(restriction, onClose)
  const wanted = { description, ip_policy_ids: policies }
  return (
    <Dialog title="Edit restriction" onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          change.mutate({ change: wanted })
        }}
      >
        <Field label="Description" autoFocus value={description} onChange={setDescription} />
        <PolicyPicker chosen={policies} onChange={setPolicies} />
        {change.isError && (
          <LockoutNote
            error={change.error}
            isPending={change.isPending}
            onAllow={(address) =>
              change.mutate({ change: wanted, allowFirst: { address, policyId: policies[0] ?? '' } })
            }
            onInsist={() => change.mutate({ change: wanted, allowSelfLockout: true })}
          />
        )}
        <div className="actions">
          <Button onPress={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" isDisabled={policies.length === 0} isPending={change.isPending}>
            Save
          </Button>
        </div>
      </form>
    </Dialog>
  )
}
