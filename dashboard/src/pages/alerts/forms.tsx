import { answerOf, api } from '../../api/client.ts'
import { invalidField } from '../../api/problem.ts'
import { useRefresh } from '../../api/queries.ts'
import { Choice } from '../../ui/choice.tsx'
import { Confirm } from '../../ui/confirm.tsx'
import { Field } from '../../ui/field.tsx'
import { FormDialog } from '../../ui/form_dialog.tsx'
import { useDraft } from '../../ui/use_draft.ts'
import type { Names } from './use_names.ts'
import { type AlertRule, type Kind, kindNames, kinds, nameOfRule, spanOf } from './words.ts'

type Closing = { onClose: () => void }

const usualSpans = [0, 60, 300, 900, 3_600]
const spansWith = (seconds: number) =>
  [...new Set([...usualSpans, seconds])]
    .sort((a, b) => a - b)
    .map((each) => ({ value: String(each), label: each === 0 ? 'At once' : `After ${spanOf(each)}` }))

/** Creates a rule, or edits the given one, whose kind is fixed. */
export function EditRule({ rule, names, onClose }: Closing & { rule?: AlertRule; names: Names }) {
  const refresh = useRefresh()
  const { values, set, isDirty } = useDraft({
    kind: rule?.kind ?? ('backend_down' as Kind),
    resource: rule?.resource_id ?? '',
    seconds: String(rule?.for_seconds ?? 60),
    percent: String(rule?.percent ?? 5),
    minutes: String(rule?.window_minutes ?? 5),
    description: rule?.description ?? '',
  })
  const { kind, resource, seconds, percent, minutes, description } = values
  const choices = names.choices(kind)
  // The rule may still name a deleted resource.
  const isGone = resource !== '' && choices.every(({ id }) => id !== resource)
  const options = [
    { value: '', label: kinds[kind].everything },
    ...choices.map(({ id, name }) => ({ value: id, label: name })),
    ...(isGone ? [{ value: resource, label: resource }] : []),
  ]
  const save = async () => {
    const body = {
      resource_id: resource || null,
      for_seconds: Number(seconds),
      ...(kind === 'errors' && {
        percent: numberIn('percent', percent),
        window_minutes: numberIn('window_minutes', minutes),
      }),
      description,
    }
    return rule
      ? answerOf(api.PATCH('/alert_rules/{id}', { params: { path: { id: rule.id } }, body }))
      : answerOf(api.POST('/alert_rules', { body: { kind, ...body } }))
  }
  return (
    <FormDialog
      title={rule ? 'Edit alert rule' : 'Create alert rule'}
      action={rule ? 'Save' : 'Create alert rule'}
      isDirty={isDirty}
      save={save}
      onSaved={async () => {
        onClose()
        await refresh('/alert')
      }}
      onClose={onClose}
    >
      {rule ? (
        <p className="strong">{kinds[kind].choice}</p>
      ) : (
        <Choice
          label="Fire when"
          name="kind"
          value={kind}
          onChange={(next) => {
            set('kind')(next)
            set('resource')('')
          }}
          options={kindNames.map((value) => ({ value, label: kinds[value].choice }))}
        />
      )}
      {options.length > 1 && (
        <Choice label="Watch" name="resource_id" value={resource} onChange={set('resource')} options={options} />
      )}
      {kind === 'errors' && (
        <div className="field-row">
          <Field
            label="More than (percent)"
            name="percent"
            inputMode="decimal"
            value={percent}
            onChange={set('percent')}
          />
          <Field
            label="Within (minutes)"
            name="window_minutes"
            inputMode="numeric"
            value={minutes}
            onChange={set('minutes')}
          />
        </div>
      )}
      {kind === 'errors' && (
        <p className="hint">
          Counts requests that failed at the edge or at the backend, not those that clients gave up. Fewer than 20
          requests decide nothing.
        </p>
      )}
      <Choice
        label="Fires"
        name="for_seconds"
        value={seconds}
        onChange={set('seconds')}
        options={spansWith(rule?.for_seconds ?? 60)}
        hint="How long it has to hold first. What comes and goes within that time sends nothing."
      />
      <Field label="Description" name="description" value={description} onChange={set('description')} />
    </FormDialog>
  )
}

function numberIn(field: string, text: string): number {
  const number = Number(text)
  if (text.trim() === '' || Number.isNaN(number)) throw invalidField(field, 'must be a number')
  return number
}

export function DeleteRule({ rule, onClose }: Closing & { rule: AlertRule }) {
  const refresh = useRefresh()
  return (
    <Confirm
      title={`Delete “${nameOfRule(rule)}”?`}
      action="Delete alert rule"
      act={() => answerOf(api.DELETE('/alert_rules/{id}', { params: { path: { id: rule.id } } }))}
      onDone={async () => {
        onClose()
        await refresh('/alert')
      }}
      onClose={onClose}
    >
      <p>What it watches is not watched any more. Its alerts that fire are resolved, and stay in the history.</p>
    </Confirm>
  )
}
