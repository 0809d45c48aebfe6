-- wrk -s post.lua <url> -- <body>: the same POST again and again.
function init(args)
  wrk.method = 'POST'
  wrk.body = args[1]
  wrk.headers['Content-Type'] = 'application/json'
end
