// SPDX-License-Identifier: Apache-2.0

// A server on quic-go for the tests and the lab: GET /bytes/N, /bytes/unlimited and POST /upload over HTTP/3 and over
// hq-interop. Over HTTP/3 also GET /code/STATUS, /headers/N (N bytes of headers) and /late/MS (the answer begins so late), and POST /code/STATUS, which
// reads nothing of the body.
// It prints "listening ADDRESS:PORT" when it is ready and ends on SIGTERM. With QLOGDIR set quic-go writes qlogs there.
package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/quic-go/qlog"
)

const (
	notFound = 0x404 // how hq-interop, which has no status, says so
	maxBytes = 1 << 30
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "quicgo:", err)
		os.Exit(1)
	}
}

func run() error {
	listen := flag.String("listen", "127.0.0.1:0", "address and port")
	cert := flag.String("cert", "", "certificate chain, PEM")
	key := flag.String("key", "", "its key, PEM")
	payload := flag.Int("max-payload", 0, "UDP payload of all packets, each sent by itself; 0: the path's, in batches")
	resetKey := flag.String("reset-key", "", "text that stateless reset tokens are derived from; none: no resets")
	flag.Parse()

	pair, err := tls.LoadX509KeyPair(*cert, *key)
	if err != nil {
		return err
	}
	address, err := net.ResolveUDPAddr("udp", *listen)
	if err != nil {
		return err
	}
	if *payload != 0 {
		os.Setenv("QUIC_GO_DISABLE_GSO", "true") // read when the socket is made
	}
	socket, err := net.ListenUDP("udp", address)
	if err != nil {
		return err
	}
	transport := &quic.Transport{Conn: socket}
	if *resetKey != "" {
		hash := quic.StatelessResetKey(sha256.Sum256([]byte(*resetKey)))
		transport.StatelessResetKey = &hash
	}
	config := &quic.Config{MaxIdleTimeout: 30 * time.Second, Tracer: qlog.DefaultConnectionTracer}
	if *payload != 0 {
		config.InitialPacketSize = uint16(*payload)
		config.DisablePathMTUDiscovery = true
	}
	listener, err := transport.Listen(
		&tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{http3.NextProtoH3, "hq-interop"}},
		config,
	)
	if err != nil {
		return err
	}
	fmt.Println("listening", socket.LocalAddr())

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	h3 := &http3.Server{Handler: http.HandlerFunc(answer)}
	for {
		conn, err := listener.Accept(ctx)
		if err != nil {
			if ctx.Err() == nil {
				return err
			}
			return transport.Close()
		}
		if conn.ConnectionState().TLS.NegotiatedProtocol == http3.NextProtoH3 {
			go func() { _ = h3.ServeQUICConn(conn) }() // its error is how the client closed, which the client reports
		} else {
			go plainStreams(ctx, conn)
		}
	}
}

// size reads /bytes/N and /bytes/unlimited.
func size(path string) (int64, error) {
	digits, ok := strings.CutPrefix(path, "/bytes/")
	if !ok {
		return 0, errors.New("no such resource")
	}
	if digits == "unlimited" {
		return math.MaxInt64, nil
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n > maxBytes {
		return 0, fmt.Errorf("'%s' is not a size up to %d", digits, maxBytes)
	}
	return n, nil
}

// number reads PREFIX followed by a number.
func number(path, prefix string) (int, bool) {
	digits, ok := strings.CutPrefix(path, prefix)
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(digits)
	return n, err == nil && n >= 0 && n <= maxBytes
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func answer(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost && r.URL.Path == "/upload" {
		n, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			return // the client gave up
		}
		fmt.Fprint(w, n)
		return
	}
	if number, ok := number(r.URL.Path, "/code/"); ok {
		w.WriteHeader(number)
		return
	}
	if bytes, ok := number(r.URL.Path, "/headers/"); ok {
		for i := 0; bytes > 0; i++ {
			part := min(bytes, 4000)
			w.Header().Set(fmt.Sprintf("X-Pad-%d", i), strings.Repeat("a", part))
			bytes -= part
		}
		fmt.Fprint(w, "body")
		return
	}
	if ms, ok := number(r.URL.Path, "/late/"); ok {
		time.Sleep(time.Duration(ms) * time.Millisecond)
		fmt.Fprint(w, "late")
		return
	}
	n, err := size(r.URL.Path)
	if err != nil || r.Method != http.MethodGet {
		http.Error(w, "not found", http.StatusNotFound)
		return
	}
	if n != math.MaxInt64 {
		w.Header().Set("Content-Length", strconv.FormatInt(n, 10))
	}
	_, _ = io.CopyN(w, zeros{}, n) // fails if the client leaves
}

func plainStreams(ctx context.Context, conn *quic.Conn) {
	for {
		stream, err := conn.AcceptStream(ctx)
		if err != nil {
			return
		}
		go func() {
			defer stream.Close()
			in := bufio.NewReader(io.LimitReader(stream, maxBytes))
			line, err := in.ReadString('\n')
			if err != nil {
				stream.CancelWrite(notFound)
				return
			}
			method, path, _ := strings.Cut(strings.TrimSpace(line), " ")
			path, _, _ = strings.Cut(path, "?")
			switch n, err := size(path); {
			case method == http.MethodGet && err == nil:
				_, _ = io.CopyN(stream, zeros{}, n)
			case method == http.MethodPost && path == "/upload":
				if n, err := io.Copy(io.Discard, in); err == nil {
					fmt.Fprint(stream, n)
				}
			default:
				stream.CancelWrite(notFound)
			}
		}()
	}
}
