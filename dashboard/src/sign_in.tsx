import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { signIn, signInOptions, startOf } from './api/session.ts'
import { SignInError } from './sign_in_error.tsx'
import { ThemeSwitch } from './theme.tsx'
import { Button } from './ui/button.tsx'
import { Field } from './ui/field.tsx'
import { Mark } from './ui/mark.tsx'
import { ProblemNote } from './ui/problem.tsx'

type Props = { hadSession: boolean; problem: unknown }

export function SignIn({ hadSession, problem }: Props) {
  const client = useQueryClient()
  const options = useQuery(signInOptions)
  // If the options cannot be read, shows the token form.
  const { token, providers } = options.data ?? { token: options.isError, providers: [] }
  return (
    <main className="sign-in">
      <div className="sign-in-card">
        <Mark />
        <h1>Sign in to Gatehouse</h1>
        <SignInError providers={providers} />
        {hadSession && (
          <p className="note warned" role="status">
            Your session has ended: you signed out, it expired, or its key was deleted.
          </p>
        )}
        {problem !== undefined && problem !== null && (
          <ProblemNote error={problem} retry={() => client.invalidateQueries({ queryKey: ['get', '/caller'] })} />
        )}
        {providers.length > 0 && (
          <div className="sign-in-providers">
            {providers.map(({ name, title }, index) => (
              <a key={name} className={`button ${index === 0 ? 'primary' : 'plain'}`} href={startOf(name, location)}>
                <span>{`Continue with ${title}`}</span>
              </a>
            ))}
          </div>
        )}
        {providers.length > 0 && token && <p className="sign-in-or">or with an API key</p>}
        {token && <TokenForm isOnly={providers.length === 0} />}
        <ThemeSwitch />
      </div>
    </main>
  )
}

function TokenForm({ isOnly }: { isOnly: boolean }) {
  const [token, setToken] = useState('')
  const client = useQueryClient()
  const enter = useMutation({
    // The key tells a wrong token from a session that has ended.
    mutationKey: ['sign in'],
    mutationFn: () => signIn(token.trim()),
    onSuccess: () => client.resetQueries(),
  })
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault()
        if (token.trim()) enter.mutate()
      }}
    >
      <Field
        label="API key"
        type="password"
        mono
        autoFocus={isOnly}
        autoComplete="off"
        value={token}
        onChange={setToken}
        placeholder="gatehouse_…"
        hint="The token of a user's API key. You have the same permissions as its owner. Deleting the key ends the session."
      />
      {enter.isError && <ProblemNote error={enter.error} />}
      <Button kind={isOnly ? 'primary' : 'plain'} type="submit" isPending={enter.isPending}>
        Sign in
      </Button>
    </form>
  )
}
