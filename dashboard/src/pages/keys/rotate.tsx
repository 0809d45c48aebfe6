import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { answerOf, api } from '../../api/client.ts'
import { Button } from '../../ui/button.tsx'
import { Choice } from '../../ui/choice.tsx'
import { Dialog } from '../../ui/dialog.tsx'
import { ProblemNote } from '../../ui/problem.tsx'
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
  const [overlap, setOverlap] = useState('86400')
  const client = useQueryClient()
  const rotate = useMutation({
    mutationFn: () =>
      answerOf(
        api.POST('/api_keys/{id}/rotate', {
          params: { path: { id: apiKey.id } },
          body: { overlap_seconds: Number(overlap) },
        }),
      ),
    onSuccess: () => client.invalidateQueries({ queryKey: ['keys'] }),
  })
  if (rotate.data?.token)
    return <TokenShown title={`New token of ${nameOf(apiKey)}`} token={rotate.data.token} onClose={onClose} />
  return (
    <Dialog title={`Rotate ${nameOf(apiKey)}`} onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          rotate.mutate()
        }}
      >
        <p>The key gets a new token and keeps its id, owner and history.</p>
        <Choice
          label="Old token"
          value={overlap}
          onChange={setOverlap}
          options={overlaps}
          hint="While both tokens work, you can deploy the new one without an outage. The old token can no longer manage keys."
        />
        {isOwnSession && (
          <p className="note warned">
            You are signed in with this key. To manage keys after the rotation, sign in again with the new token.
          </p>
        )}
        {rotate.isError && <ProblemNote error={rotate.error} />}
        <div className="actions">
          <Button onPress={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" isPending={rotate.isPending}>
            Rotate
          </Button>
        </div>
      </form>
    </Dialog>
  )
}
