import { useState } from 'react'
import { answerOf, api } from '../../api/client.ts'
import { useRefresh } from '../../api/queries.ts'
import { Button } from '../../ui/button.tsx'
import { Confirm } from '../../ui/confirm.tsx'
import { CopyButton } from '../../ui/copy.tsx'
import { Dialog } from '../../ui/dialog.tsx'
import { Field } from '../../ui/field.tsx'
import { FormDialog } from '../../ui/form_dialog.tsx'
import { Segments } from '../../ui/segments.tsx'
import { useDraft } from '../../ui/use_draft.ts'
import { wordsOf } from '../keys/access.tsx'
import { nameOf, type Webhook } from './webhook.tsx'

type Closing = { onClose: () => void }

export const formats: Record<Webhook['format'], { label: string; url: string; placeholder: string; hint: string }> = {
  standard: {
    label: 'Signed events',
    url: 'URL',
    placeholder: 'https://example.com/gatehouse',
    hint: 'Gets a signed POST request for each event.',
  },
  slack: {
    label: 'Chat message',
    url: 'URL',
    placeholder: 'https://hooks.slack.com/services/…',
    hint: 'The URL of an incoming webhook of Slack, Mattermost or another chat that takes the same messages.',
  },
  email: {
    label: 'E-mail',
    url: 'E-mail address',
    placeholder: 'team@example.com',
    hint: 'One address. The operator says which domains may get alerts.',
  },
}
const formatOptions = (Object.keys(formats) as Webhook['format'][]).map((value) => ({
  value,
  label: formats[value].label,
}))

/** `isForAlerts`: preselects alerts only. */
export function CreateWebhook({ isForAlerts = false, onClose }: Closing & { isForAlerts?: boolean }) {
  const { values, set, isDirty } = useDraft({
    ...{ url: '', description: '', operations: isForAlerts ? 'alerts.*' : '' },
    format: (isForAlerts ? 'slack' : 'standard') as Webhook['format'],
  })
  const [created, setCreated] = useState<Webhook>()
  const refresh = useRefresh()
  if (created?.secret)
    return <SecretShown title={`Secret of ${nameOf(created)}`} secret={created.secret} onClose={onClose} />
  const { url, description, operations, format } = values
  const isMail = format === 'email'
  // E-mail destinations get alerts only.
  const wanted = isMail ? ['alerts.*'] : wordsOf(operations)
  return (
    <FormDialog
      title={isForAlerts ? 'Add destination' : 'Create webhook'}
      action={isForAlerts ? 'Add destination' : 'Create webhook'}
      isDirty={isDirty}
      save={() =>
        answerOf(
          api.POST('/webhook_destinations', {
            body: {
              ...{ url: isMail ? `mailto:${url.trim().replace(/^mailto:/i, '')}` : url, description, format },
              ...(wanted.length > 0 && { operations: wanted }),
            },
          }),
        )
      }
      onSaved={(webhook) => {
        // Messages for people are not signed, so there is no secret to show.
        if (format === 'standard') setCreated(webhook)
        else onClose()
        return refresh('/webhook_destinations')
      }}
      onClose={onClose}
    >
      <Segments label="Send as" name="format" value={format} onChange={set('format')} options={formatOptions} />
      <Field
        key={formats[format].url}
        label={formats[format].url}
        name="url"
        mono
        autoFocus
        value={url}
        onChange={set('url')}
        placeholder={formats[format].placeholder}
        hint={formats[format].hint}
      />
      <Field label="Description" name="description" value={description} onChange={set('description')} />
      {!isMail && (
        <Field
          label="Operations"
          name="operations"
          mono
          value={operations}
          onChange={set('operations')}
          placeholder="api_keys.* *.delete"
          hint="Operation ids and patterns, separated by spaces. Empty: all."
        />
      )}
    </FormDialog>
  )
}

export function RotateSecret({ webhook, onClose }: Closing & { webhook: Webhook }) {
  const [rotated, setRotated] = useState<Webhook>()
  const refresh = useRefresh()
  if (rotated?.secret)
    return <SecretShown title={`New secret of ${nameOf(webhook)}`} secret={rotated.secret} onClose={onClose} />
  return (
    <FormDialog
      title={`Rotate the secret of ${nameOf(webhook)}`}
      action="Rotate secret"
      save={() =>
        answerOf(api.POST('/webhook_destinations/{id}/rotate', { params: { path: { id: webhook.id } }, body: {} }))
      }
      onSaved={(changed) => {
        setRotated(changed)
        return refresh('/webhook_destinations')
      }}
      onClose={onClose}
    >
      <p>For one day, events are signed with the old and the new secret.</p>
    </FormDialog>
  )
}

export function DeleteWebhook({ webhook, onDeleted, onClose }: Closing & { webhook: Webhook; onDeleted: () => void }) {
  const refresh = useRefresh()
  return (
    <Confirm
      title={`Delete ${nameOf(webhook)}?`}
      action="Delete webhook"
      act={() => answerOf(api.DELETE('/webhook_destinations/{id}', { params: { path: { id: webhook.id } } }))}
      onDone={async () => {
        onClose()
        onDeleted()
        await refresh('/webhook_destinations')
      }}
      onClose={onClose}
    >
      <p>Events that were not delivered are not sent any more. This cannot be undone.</p>
    </Confirm>
  )
}

/** Shows the secret, for the only time. */
function SecretShown({ title, secret, onClose }: Closing & { title: string; secret: string }) {
  return (
    <Dialog title={title} onClose={onClose} mustAnswer>
      <p>Copy the secret now. Your receiver verifies signatures with it, and it cannot be shown again.</p>
      <output className="token mono" aria-label="Secret">
        {secret}
      </output>
      <div className="actions">
        <CopyButton text={secret} what="secret" />
        <Button kind="primary" onPress={onClose}>
          I have saved it
        </Button>
      </div>
    </Dialog>
  )
}
