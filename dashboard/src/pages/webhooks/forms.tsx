import { useState } from 'react'
import { answerOf, api } from '../../api/client.ts'
import { useRefresh } from '../../api/queries.ts'
import { Button } from '../../ui/button.tsx'
import { Confirm } from '../../ui/confirm.tsx'
import { CopyButton } from '../../ui/copy.tsx'
import { Dialog } from '../../ui/dialog.tsx'
import { Field } from '../../ui/field.tsx'
import { FormDialog } from '../../ui/form_dialog.tsx'
import { useDraft } from '../../ui/use_draft.ts'
import { wordsOf } from '../keys/access.tsx'
import { nameOf, type Webhook } from './webhook.tsx'

type Closing = { onClose: () => void }

export function CreateWebhook({ onClose }: Closing) {
  const { values, set, isDirty } = useDraft({ url: '', description: '', operations: '' })
  const [created, setCreated] = useState<Webhook>()
  const refresh = useRefresh()
  if (created?.secret)
    return <SecretShown title={`Secret of ${nameOf(created)}`} secret={created.secret} onClose={onClose} />
  const { url, description, operations } = values
  const wanted = wordsOf(operations)
  return (
    <FormDialog
      title="Create webhook"
      action="Create webhook"
      isDirty={isDirty}
      save={() =>
        answerOf(
          api.POST('/webhook_destinations', {
            body: { url, description, ...(wanted.length > 0 && { operations: wanted }) },
          }),
        )
      }
      onSaved={(webhook) => {
        setCreated(webhook)
        return refresh('/webhook_destinations')
      }}
      onClose={onClose}
    >
      <Field
        label="URL"
        name="url"
        mono
        autoFocus
        value={url}
        onChange={set('url')}
        placeholder="https://example.com/gatehouse"
        hint="Gets a signed POST request for each change."
      />
      <Field label="Description" name="description" value={description} onChange={set('description')} />
      <Field
        label="Operations"
        name="operations"
        mono
        value={operations}
        onChange={set('operations')}
        placeholder="api_keys.* *.delete"
        hint="Operation ids and patterns, separated by spaces. Empty: all."
      />
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

/** The only time that anyone sees it. */
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
