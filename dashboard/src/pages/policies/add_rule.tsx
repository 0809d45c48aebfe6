import { formatCidr, parseCidr } from '../../../../src/kernel/ip/cidr.ts'
import { invalidField } from '../../api/problem.ts'
import type { Rule } from '../../rules.ts'
import { Choice } from '../../ui/choice.tsx'
import { Field } from '../../ui/field.tsx'
import { FormDialog } from '../../ui/form_dialog.tsx'
import { useDraft } from '../../ui/use_draft.ts'

const lifetimes = [
  { value: '', label: 'Never' },
  { value: '1', label: 'In an hour' },
  { value: '24', label: 'In a day' },
  { value: '168', label: 'In a week' },
  { value: '720', label: 'In 30 days' },
]

type Values = { range: string; action: Rule['action']; description: string; hours: string }

export function AddRule({ onAdd, onClose }: { onAdd: (rule: Rule) => void; onClose: () => void }) {
  const { values, set, isDirty } = useDraft<Values>({ range: '', action: 'allow', description: '', hours: '' })
  async function add(): Promise<void> {
    const { range, action, description, hours } = values
    const { cidr, fault } = parseCidr(range.trim())
    if (!cidr) throw invalidField('cidr', fault ?? '')
    onAdd({
      cidr: formatCidr(cidr),
      action,
      ...(description && { description }),
      ...(hours && { expires_at: new Date(Date.now() + Number(hours) * 3_600_000).toISOString() }),
    })
  }
  return (
    <FormDialog title="Add rule" action="Add to draft" isDirty={isDirty} save={add} onSaved={onClose} onClose={onClose}>
      <Field
        label="Address or range"
        name="cidr"
        mono
        autoFocus
        value={values.range}
        onChange={set('range')}
        placeholder="203.0.113.0/24"
      />
      <Choice
        label="Action"
        value={values.action}
        onChange={set('action')}
        options={[
          { value: 'allow', label: 'Allow' },
          { value: 'deny', label: 'Deny (overrides any allow)' },
        ]}
      />
      <Field label="Description" value={values.description} onChange={set('description')} />
      <Choice label="Expires" value={values.hours} onChange={set('hours')} options={lifetimes} />
    </FormDialog>
  )
}
