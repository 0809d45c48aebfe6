import { useMutation, useQueryClient } from '@tanstack/react-query'
import { answerOf, api } from '../../api/client.ts'
import { Confirm } from '../../ui/confirm.tsx'
import { type ApiKey, nameOf, UsedAt } from '../keys.tsx'

type Props = { apiKey: ApiKey; isOwnSession: boolean; onClose: () => void }

export function DeleteKey({ apiKey, isOwnSession, onClose }: Props) {
  const client = useQueryClient()
  const remove = useMutation({
    mutationFn: () => answerOf(api.DELETE('/api_keys/{id}', { params: { path: { id: apiKey.id } } })),
    onSuccess: () => {
      onClose()
      return client.invalidateQueries({ queryKey: [isOwnSession ? 'caller' : 'keys'] })
    },
  })
  return (
    <Confirm
      title={`Delete ${nameOf(apiKey)}?`}
      typeToConfirm={nameOf(apiKey)}
      action="Delete the key"
      isPending={remove.isPending}
      error={remove.error}
      onConfirm={() => remove.mutate()}
      onClose={onClose}
    >
      <p>
        Whoever uses it is refused from the next request on, everywhere. It cannot be brought back.{' '}
        {apiKey.last_used_at ? (
          <>
            It was last used <UsedAt hour={apiKey.last_used_at} />
            {apiKey.last_used_ip && (
              <>
                {' '}
                from <span className="mono">{apiKey.last_used_ip}</span>
              </>
            )}
            .
          </>
        ) : (
          'It was never used.'
        )}
      </p>
      {isOwnSession && (
        <p className="note warned">This is the key that you are signed in with: you will be signed out.</p>
      )}
    </Confirm>
  )
}
