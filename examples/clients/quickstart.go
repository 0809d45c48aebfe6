// Creates an IP policy, adds a rule twice, lists all policies, and deletes the policy. Go 1.19 or newer, without modules.
package main

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/url"
	"os"
	"time"
)

type apiError struct {
	Status int    `json:"status_code"`
	Code   string `json:"error_code"`
	Msg    string `json:"msg"`
}

func (e *apiError) Error() string { return e.Msg }

var client = &http.Client{
	Timeout: time.Minute,
	// The API key is for one host only.
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

func call(method, path string, body, result any) error {
	var sent bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&sent).Encode(body); err != nil {
			return err
		}
	}
	request, err := http.NewRequest(method, os.Getenv("GATEHOUSE_URL")+path, &sent)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+os.Getenv("GATEHOUSE_API_KEY"))
	request.Header.Set("Service-Version", "2")
	request.Header.Set("Content-Type", "application/json")
	if method == http.MethodPost {
		key := make([]byte, 16)
		if _, err := rand.Read(key); err != nil {
			return err
		}
		request.Header.Set("Idempotency-Key", fmt.Sprintf("%x", key)) // send the same one again if the response is lost
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode >= 300 {
		failed := &apiError{Status: response.StatusCode}
		if err := json.NewDecoder(response.Body).Decode(failed); err != nil {
			return err
		}
		return failed
	}
	if result == nil {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(result)
}

type policy struct {
	ID          string `json:"id"`
	Description string `json:"description"`
}

func main() {
	var staging policy
	if err := call("POST", "/ip_policies", map[string]string{"description": "staging"}, &staging); err != nil {
		log.Fatal(err)
	}
	rule := map[string]string{"ip_policy_id": staging.ID, "action": "allow", "cidr": "203.0.113.0/24"}
	if err := call("POST", "/ip_policy_rules", rule, nil); err != nil {
		log.Fatal(err)
	}
	if failed, ok := call("POST", "/ip_policy_rules", rule, nil).(*apiError); ok {
		fmt.Println(failed.Status, failed.Code) // 409 ERR_CIDR_TAKEN
	}
	for query := ""; ; {
		var page struct {
			Policies []policy `json:"ip_policies"`
			Next     *string  `json:"next_page_uri"`
		}
		if err := call("GET", "/ip_policies?"+query, nil, &page); err != nil {
			log.Fatal(err)
		}
		for _, each := range page.Policies {
			fmt.Println(each.ID, each.Description)
		}
		if page.Next == nil {
			break
		}
		next, err := url.Parse(*page.Next)
		if err != nil {
			log.Fatal(err)
		}
		query = next.RawQuery
	}
	if err := call("DELETE", "/ip_policies/"+staging.ID, nil, nil); err != nil {
		log.Fatal(err)
	}
}
