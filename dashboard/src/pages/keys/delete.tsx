import { useState } from 'react'
import { $api, answerOf, api } from '../../api/client.ts'
import { useRefresh } from '../../api/queries.ts'
import { Confirm } from '../../ui/confirm.tsx'
import { ProblemNote } from '../../ui/problem.tsx'
import { Switch } from '../../ui/switch.tsx'
import { type ApiKey, nameOf, UsedAt } from './key.tsx'

type Props = { apiKey: ApiKey; callerKeyId: string | undefined; onClose: () => void; onDeleted?: () => void }

export function DeleteKey({ apiKey, callerKeyId, onClose, onDeleted }: Props) {
  const refresh = useRefresh()
  const [revokes, setRevokes] = useState(false)
  const descendants = $api.useQuery('get', '/api_keys', { params: { query: { descendants_of: apiKey.id } } })
  const below = descendants.data?.keys ?? []
  const count = `${below.length}${descendants.data?.next_page_uri ? '+' : ''}`
  const endsSession = [apiKey, ...(revokes ? below : [])].some(({ id }) => id === callerKeyId)
  return (
    <Confirm
      title={`Delete ${nameOf(apiKey)}?`}
      typeToConfirm={nameOf(apiKey)}
      action={revokes ? 'Delete keys' : 'Delete key'}
      isWaiting={descendants.isPending}
      act={() =>
        answerOf(
          api.DELETE('/api_keys/{id}', {
            params: { path: { id: apiKey.id }, query: revokes ? { revoke_descendants: true } : {} },
          }),
        )
      }
      onDone={() => {
        onClose()
        onDeleted?.()
        return refresh(endsSession ? '/caller' : '/api_keys')
      }}
      onClose={onClose}
    >
      <p>
        The key stops working immediately, everywhere. This cannot be undone.{' '}
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
          'It has never been used.'
        )}
      </p>
      {descendants.isError && <ProblemNote error={descendants.error} retry={() => descendants.refetch()} />}
      {below.length > 0 && (
        <>
          <Switch isSelected={revokes} onChange={setRevokes}>
            {`Also delete the ${below.length === 1 ? 'key' : `${count} keys`} created with it`}
          </Switch>
          <ul className="fine">
            {below.slice(0, 5).map((key) => (
              <li key={key.id}>{nameOf(key)}</li>
            ))}
            {below.length > 5 && <li>and more</li>}
          </ul>
        </>
      )}
      {endsSession && <p className="note warned">You are signed in with this key. Deleting it signs you out.</p>}
    </Confirm>
  )
}
