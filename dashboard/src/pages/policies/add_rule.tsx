import { useState } from 'react'
import { formatCidr, parseCidr } from '../../../../src/kernel/ip/cidr.ts'
import type { Rule } from '../../rules.ts'
import { Button } from '../../ui/button.tsx'
import { Choice } from '../../ui/choice.tsx'
import { Dialog } from '../../ui/dialog.tsx'
import { Field } from '../../ui/field.tsx'

const lifetimes = [
  { value: '', label: 'Never' },
  { value: '1', label: 'In an hour' },
  { value: '24', label: 'In a day' },
  { value: '168', label: 'In a week' },
  { value: '720', label: 'In 30 days' },
]

export function AddRule({ onAdd, onClose }: { onAdd: (rule: Rule) => void; onClose: () => void }) {
  const [written, setWritten] = useState('')
  const [action, setAction] = useState<Rule['action']>('allow')
  const [description, setDescription] = useState('')
  const [hours, setHours] = useState('')
  const [isTried, setTried] = useState(false)
  const { cidr, fault } = parseCidr(written.trim())
  return (
    <Dialog title="Add rule" onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          setTried(true)
          if (!cidr) return
          onAdd({
            cidr: formatCidr(cidr),
            action,
            ...(description && { description }),
            ...(hours && { expires_at: new Date(Date.now() + Number(hours) * 3_600_000).toISOString() }),
          })
          onClose()
        }}
      >
        <Field
          label="Address or range"
          mono
          autoFocus
          value={written}
          onChange={setWritten}
          placeholder="203.0.113.0/24"
          error={isTried && fault ? `It ${fault}` : undefined}
        />
        <Choice
          label="Action"
          value={action}
          onChange={(value) => setAction(value as Rule['action'])}
          options={[
            { value: 'allow', label: 'Allow' },
            { value: 'deny', label: 'Deny (overrides any allow)' },
          ]}
        />
        <Field label="Description" value={description} onChange={setDescription} />
        <Choice label="Expires" value={hours} onChange={setHours} options={lifetimes} />
        <div className="actions">
          <Button onPress={onClose}>Cancel</Button>
          <Button kind="primary" type="submit">
            Add to draft
          </Button>
        </div>
      </form>
    </Dialog>
  )
}
