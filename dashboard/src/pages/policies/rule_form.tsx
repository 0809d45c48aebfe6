import { formatCidr, parseCidr } from '../../../../src/kernel/ip/cidr.ts'
import { invalidField } from '../../api/problem.ts'
import type { Rule } from '../../rules.ts'
import { Button } from '../../ui/button.tsx'
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
const unchanged = { value: 'keep', label: 'Unchanged' }

type Values = { range: string; action: Rule['action']; description: string; hours: string }
type Props = {
  /** The rule to edit; absent for a new one. */
  rule?: Rule | undefined
  onSave: (rule: Rule) => void
  onRemove?: (() => void) | undefined
  /** Runs after saving. Default: closes the form. */
  onSaved?: () => void
  onClose: () => void
}

const expiryOf = (hours: string, rule: Rule | undefined): string | undefined => {
  if (hours === 'keep') return rule?.expires_at
  return hours ? new Date(Date.now() + Number(hours) * 3_600_000).toISOString() : undefined
}

export function RuleForm({ rule, onSave, onRemove, onClose, onSaved = onClose }: Props) {
  const { values, set, isDirty } = useDraft<Values>({
    range: rule?.cidr ?? '',
    action: rule?.action ?? 'allow',
    description: rule?.description ?? '',
    hours: rule?.expires_at ? 'keep' : '',
  })
  async function save(): Promise<void> {
    const { range, action, description, hours } = values
    const { cidr, fault } = parseCidr(range.trim())
    if (!cidr) throw invalidField('cidr', fault ?? '')
    const expires_at = expiryOf(hours, rule)
    onSave({
      cidr: formatCidr(cidr),
      action,
      ...(description && { description }),
      ...(expires_at !== undefined && { expires_at }),
      ...(rule?.metadata !== undefined && { metadata: rule.metadata }),
    })
  }
  return (
    <FormDialog
      title={rule ? `Change ${rule.action} ${rule.cidr}` : 'Add rule'}
      action={rule ? 'Change rule' : 'Add rule'}
      isDirty={isDirty}
      save={save}
      onSaved={onSaved}
      onClose={onClose}
      extra={onRemove && <Button onPress={onRemove}>Remove rule</Button>}
    >
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
      <Choice
        label="Expires"
        value={values.hours}
        onChange={set('hours')}
        options={rule?.expires_at ? [unchanged, ...lifetimes] : lifetimes}
      />
    </FormDialog>
  )
}
