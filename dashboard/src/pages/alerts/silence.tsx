import { answerOf, api } from '../../api/client.ts'
import { invalidField } from '../../api/problem.ts'
import { useRefresh } from '../../api/queries.ts'
import { Field } from '../../ui/field.tsx'
import { FormDialog } from '../../ui/form_dialog.tsx'
import { Segments } from '../../ui/segments.tsx'
import { useDraft } from '../../ui/use_draft.ts'
import { type AlertRule, isSilenced, momentText, nameOfRule } from './words.ts'

type Length = '1' | '8' | 'morning' | '168' | 'date' | 'end'

const lengths: readonly { value: Length; label: string }[] = [
  { value: '1', label: '1 hour' },
  { value: '8', label: '8 hours' },
  { value: 'morning', label: 'Until tomorrow 9:00' },
  { value: '168', label: '1 week' },
  { value: 'date', label: 'Date…' },
]

/** Null: no longer silenced. Undefined: the input is not a time. */
export function untilWhen(length: Length, typed: string, now = new Date()): string | null | undefined {
  if (length === 'end') return null
  if (length === 'morning') return new Date(now.getFullYear(), now.getMonth(), now.getDate() + 1, 9).toISOString()
  if (length !== 'date') return new Date(now.getTime() + Number(length) * 3_600_000).toISOString()
  const moment = new Date(typed)
  return Number.isNaN(moment.getTime()) ? undefined : moment.toISOString()
}

export function SilenceRule({ rule, onClose }: { rule: AlertRule; onClose: () => void }) {
  const refresh = useRefresh()
  const silenced = isSilenced(rule)
  const { values, set, isDirty } = useDraft<{ length: Length; date: string }>({
    length: silenced ? 'end' : '1',
    date: '',
  })
  const until = untilWhen(values.length, values.date)
  return (
    <FormDialog
      title={`Silence “${nameOfRule(rule)}”`}
      action={values.length === 'end' ? 'End silence' : 'Silence rule'}
      isDirty={isDirty}
      save={async () => {
        if (until === undefined || (until !== null && Date.parse(until) <= Date.now()))
          throw invalidField('silenced_until', 'must be a time in the future')
        return answerOf(
          api.PATCH('/alert_rules/{id}', { params: { path: { id: rule.id } }, body: { silenced_until: until } }),
        )
      }}
      onSaved={async () => {
        onClose()
        await refresh('/alert')
      }}
      onClose={onClose}
    >
      {silenced && <p>It is silenced until {momentText(rule.silenced_until ?? '')}.</p>}
      <Segments
        label="Send nothing for"
        name={values.length === 'date' ? 'length' : 'silenced_until'}
        value={values.length}
        onChange={set('length')}
        options={silenced ? [{ value: 'end' as const, label: 'Send again' }, ...lengths] : lengths}
      >
        <span className="soft">{until && `until ${momentText(until)}`}</span>
      </Segments>
      {values.length === 'date' && (
        <Field label="Until" name="silenced_until" type="datetime-local" value={values.date} onChange={set('date')} />
      )}
      <p className="soft">
        All alerts of this rule still fire and are listed here, but are not sent. What still fires afterwards is sent
        then. If an alert was sent already, its end is sent too.
      </p>
    </FormDialog>
  )
}
