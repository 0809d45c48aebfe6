import { useState } from 'react'
import { answerOf, api } from '../../api/client.ts'
import { useRefresh } from '../../api/queries.ts'
import { Choice } from '../../ui/choice.tsx'
import { FormDialog } from '../../ui/form_dialog.tsx'
import { useDraft } from '../../ui/use_draft.ts'
import { type ApiKey, nameOf } from './key.tsx'
import { TokenShown } from './token.tsx'

const overlaps = [
  { value: '0', label: 'Revoke immediately' },
  { value: '3600', label: 'Keep for one hour' },
  { value: '86400', label: 'Keep for one day' },
  { value: '604800', label: 'Keep for one week' },
]

type Props = { apiKey: ApiKey; isOwnSession: boolean; onClose: () => void }

export function RotateKey({ apiKey, isOwnSession, onClose }: Props) {
  const { values, set, isDirty } = useDraft({ overlap: '86400' })
  const [rotated, setRotated] = useState<ApiKey>()
  const refresh = useRefresh()
  const rotate = () =>
    answerOf(
      api.POST('/api_keys/{id}/rotate', {
        params: { path: { id: apiKey.id } },
        body: { overlap_seconds: Number(values.overlap) },
      }),
    )
  if (rotated?.token)
    return <TokenShown title={`New token of ${nameOf(apiKey)}`} token={rotated.token} onClose={onClose} />
  return (
    <FormDialog
      title={`Rotate ${nameOf(apiKey)}`}
      action="Rotate key"
      isDirty={isDirty}
      save={rotate}
      onSaved={(key) => {
        setRotated(key)
        return refresh('/api_keys')
      }}
      onClose={onClose}
    >
      <p>The key gets a new token and keeps its id, owner and history.</p>
      <Choice
        label="Old token"
        name="overlap_seconds"
        value={values.overlap}
        onChange={set('overlap')}
        options={overlaps}
        hint="While both tokens work, you can deploy the new one without an outage. The old token can no longer manage keys."
      />
      {isOwnSession && (
        <p className="note warned">
          You are signed in with this key. To manage keys after the rotation, sign in again with the new token.
        </p>
      )}
    </FormDialog>
  )
}
